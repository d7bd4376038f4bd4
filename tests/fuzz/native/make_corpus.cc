// Writes the first inputs of the fuzzers: frames of all kinds, messages of collective operations, the beginning of a
// handshake, and some traffic through a forwarder.
#include <filesystem>
#include <fstream>

#include "../../native/hostile_member.h"

int main(int argc, char** argv) {
  using namespace native_tests;
  const std::filesystem::path frames = std::filesystem::path(argv[argc - 1]) / "fuzz_frames",
                              handshakes = std::filesystem::path(argv[argc - 1]) / "fuzz_handshake",
                              messages = std::filesystem::path(argv[argc - 1]) / "fuzz_collectives",
                              traffic = std::filesystem::path(argv[argc - 1]) / "fuzz_forwarder";
  std::filesystem::create_directories(frames);
  for (const auto& each : {handshakes, messages, traffic}) std::filesystem::create_directories(each);
  int number = 0;
  for (const std::string& frame : sample_frames()) {
    std::ofstream(frames / std::to_string(number++)) << std::string("\0\1", 2) << frame << frame;
    std::ofstream(frames / std::to_string(number++)) << std::string("\1\2", 2) << frame;
  }
  std::string lent;
  Writer(lent).put(DType::float32).put(uint8_t{1}).put(Place::shared_memory).put(uint8_t{0});
  Writer(lent).put(int64_t{100}).put(uint64_t{1}).put(uint64_t{4096});
  const FrameHeader header{static_cast<uint32_t>(lent.size()), static_cast<uint8_t>(FrameKind::tensor), 0, 1, 0, 1, 2};
  std::ofstream(frames / "lent") << std::string("\1\3", 2)
                                 << std::string_view(reinterpret_cast<const char*>(&header), sizeof header) << lent;
  std::string hello, caller(kMagic, sizeof kMagic), server;
  Writer(hello).text("c").text("/job:w").put(uint64_t{1}).put(uint8_t{1});
  hello.append(16, 'r');
  Writer(caller).text(hello).text(std::string(32, 'p'));
  Writer(server).text(hello).text(std::string(32, 'p')).text("");
  std::ofstream(handshakes / "caller") << '\3' << caller;
  std::ofstream(handshakes / "server") << '\2' << server;
  std::ofstream(handshakes / "refused") << '\7' << caller;
  std::ofstream(handshakes / "tls") << '\1' << std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8);
  std::ofstream(handshakes / "http2") << '\1' << "PRI * HTTP/2.0";
  std::ofstream(handshakes / "refusal") << '\0' << server << "\x05\0\0\0\x10\0\0\0\0";
  number = 0;
  std::vector<Frame> all = sample_messages();
  const size_t num_apart = all.size();
  for (Frame& message : sample_messages(kTwoByTwo)) all.push_back(std::move(message));
  for (const Frame& message : all) {
    const bool is_apart = static_cast<size_t>(number) < num_apart;
    const char kind = static_cast<char>(number % 25 + (is_apart ? 0 : 128)), value = static_cast<char>(number % 8);
    const char head[] = {static_cast<char>(message.flags), 1, value, static_cast<char>(message.body.size())};
    std::ofstream(messages / std::to_string(number++)) << kind << std::string(head, sizeof head) << message.body;
  }
  std::ofstream(traffic / "both") << "\x80\x81\x83\x82\x04\x05\x83\x82";
  std::ofstream(traffic / "lost") << "\x88\xff\x83";
}
