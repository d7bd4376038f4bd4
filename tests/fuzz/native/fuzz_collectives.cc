// Fuzzes Collectives with messages of a member of a group (make fuzz-native).
//
// The first byte decides what the member here runs, and on how many hosts the members are. Then follow messages: a byte
// for the phase, one for the generation, one for the elements, one for the length of the body, and the body.
#include "../../native/hostile_member.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace native_tests;
  if (size < 1) return 0;
  Limits limits;
  limits.collectives = 100;
  HostileMember member(limits, kPeer, data[0] >= 128 ? kTwoByTwo : kApart);
  const Tensor values[] = {counting(40),    counting(40000),
                           counting(0),     counting(40, Shape{4, 10}),
                           counting(20000), Tensor(DType::float32, Shape{40}),
                           Tensor(),        counting(80000)};
  const size_t started[] = {0, 1, 2, 3, 7};
  member.start(static_cast<Collective>(data[0] % 5 + 1), values[started[data[0] / 5 % 5]]);
  for (++data, --size; size >= 4;) {
    Frame frame{FrameKind::collective, data[0], data[1], 1, {}, {}};
    const Tensor& value = values[data[2] % std::size(values)];
    if (value.defined()) frame.tensors.push_back(value);
    const size_t length = std::min<size_t>(data[3], size - 4);
    frame.body.assign(reinterpret_cast<const char*>(data) + 4, length);
    data += 4 + length;
    size -= 4 + length;
    try {
      member.receive(std::move(frame));
    } catch (const Error& error) {
      if (error.code() != Code::invalid_argument && error.code() != Code::resource_exhausted) __builtin_trap();
    }
  }
  return 0;
}
