// Fuzzes both sides of the handshake with any bytes from the peer (make fuzz-native).
//
// The first byte decides which side, whether it offers shared memory, and whether it refuses every peer.
#include "../../native/net_mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace native_tests;
  if (size < 1) return 0;
  auto [in, out] = socket_pair();
  write_text(in, {reinterpret_cast<const char*>(data) + 1, size - 1});
  shutdown(in.fd(), SHUT_WR);
  const Identity own{"c", "/job:ps/replica:0/task:0", 1};
  SharedArena* arena = data[0] & 2 ? SharedArena::get() : nullptr;
  try {
    if (data[0] & 4) refuse(out, Error(Code::unauthenticated, "not admitted"), Clock::now() + 10s);
    if (data[0] & 1) {
      if (answer(out, own, "key", arena, true, Clock::now() + 10s).http2) return 0;
    } else {
      net::call(out, own, "key", arena, true, Clock::now() + 10s);
    }
  } catch (const Error&) {
    return 0;
  }
  __builtin_trap();  // No input proves the key by chance.
}
