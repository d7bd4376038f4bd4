// DecodeCompressed: inflates each string.
#include <algorithm>

#include "io/inflate.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class TextSource : public ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  size_t read(char* to, size_t size) override {
    size_t n = at_ < text_.size() ? std::min(size, text_.size() - at_) : 0;
    std::copy_n(text_.data() + std::min(at_, text_.size()), n, to);
    at_ += n;
    return n;
  }
  void seek(uint64_t position) override { at_ = position; }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

struct DecodeCompressed : Kernel {
  explicit DecodeCompressed(const Construction& c) {
    std::string name = c.attr<std::string>("compression_type", "");
    require(name.empty() || name == "ZLIB" || name == "GZIP",
            "Only ZLIB, GZIP or NONE are supported compressions, got '", name, "'");
    format = compression_from_name(name);
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    if (format == Compression::none) {
      ctx.set_output(0, in);
      return;
    }
    Tensor& out = ctx.allocate(0, in.shape());
    std::string piece(64 * 1024, '\0');
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      if (in.strings()[i].empty()) continue;
      Inflate inflate(cat("string ", i), std::make_unique<TextSource>(in.strings()[i]), format);
      while (size_t n = inflate.read(piece.data(), piece.size())) out.strings()[i].append(piece, 0, n);
    }
  }
  Compression format;
};

REGISTER(kernel("DecodeCompressed").make<DecodeCompressed>());

}  // namespace
}  // namespace thalweg
