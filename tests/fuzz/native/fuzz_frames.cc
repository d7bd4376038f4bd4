// Fuzzes FrameReader: any bytes, in pieces of any size, with and without shared memory (make fuzz-native).
//
// The first byte decides whether the peer shares its memory, the second one the sizes of the pieces.
#include <unistd.h>

#include "../../native/net_mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace native_tests;
  static Loans loans(nullptr, std::make_shared<PeerArena>(dup(SharedArena::get()->reading_fd())), [](uint64_t) {});
  if (size < 2) return 0;
  Random random(data[1]);
  read_hostile({reinterpret_cast<const char*>(data) + 2, size - 2}, random, data[0] & 1 ? &loans : nullptr);
  return 0;
}
