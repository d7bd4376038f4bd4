// StringLower and StringUpper: of ASCII letters, or of all letters of UTF-8.
#include "compute/elementwise/elementwise.h"
#include "kernel/registry.h"
#include "strings/case_mapping.h"

namespace thalweg {
namespace {

bool is_ascii(const std::string& text) {
  unsigned char all = 0;
  for (char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

template <bool kUpper>
struct StringCase : Kernel {
  explicit StringCase(const Construction& c) {
    std::string encoding = c.attr<std::string>("encoding", "");
    for (char& letter : encoding) letter = changed(letter, false);
    require(encoding.empty() || encoding == "utf-8", "only utf-8 or '' (no encoding) is supported, received ",
            c.attr<std::string>("encoding", ""));
    unicode_ = !encoding.empty();
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
    const std::string* from = in.strings();
    std::string* to = out.strings();
    parallel_for(in.num_elements(), kElementGrain / 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (unicode_ && !is_ascii(from[i])) {
          to[i] = changed_case(from[i], kUpper);
          continue;
        }
        if (to != from) to[i] = from[i];
        for (char& letter : to[i]) letter = changed(letter, kUpper);
      }
    });
  }

 private:
  // Without a branch, so that the loop over a string is vector code.
  static char changed(char c, bool upper) {
    const char first = upper ? 'a' : 'A';
    const bool letter = static_cast<unsigned char>(c - first) < 26;
    return static_cast<char>(c ^ (letter << 5));
  }
  bool unicode_ = false;
};

REGISTER(kernel("StringLower").make<StringCase<false>>());
REGISTER(kernel("StringUpper").make<StringCase<true>>());

}  // namespace
}  // namespace thalweg
