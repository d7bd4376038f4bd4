// DecodeJpeg's shortcut: intact JPEG files are decoded without Python; damaged ones and other formats by Pillow.
#include "io/jpeg.h"
#include "kernel/registry.h"
#include "kernel/shortcut.h"

namespace thalweg {
namespace {

Shortcut decode_jpeg_shortcut(const Construction& c) {
  const auto method = c.attr<std::string>("dct_method", "");
  if (method != "" && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE") return {};
  JpegOptions options{c.attr<int64_t>("channels", 0),
                      c.attr<int64_t>("ratio", 1),
                      c.attr<bool>("fancy_upscaling", true),
                      method == "INTEGER_ACCURATE",
                      c.attr<double>("acceptable_fraction", 1.0),
                      c.attr<bool>("try_recover_truncated", false)};
  return [options](Context& ctx) {
    if (ctx.input(0).rank() != 0) return false;
    std::optional<Tensor> pixels = decode_jpeg(ctx.input(0).item<std::string>(), options);
    if (pixels) ctx.set_output(0, std::move(*pixels));
    return pixels.has_value();
  };
}

REGISTER(add_shortcut("DecodeJpeg", decode_jpeg_shortcut));

}  // namespace
}  // namespace thalweg
