// Decoding JPEG files by libjpeg, into tensors, without the GIL.
//
// The library is Pillow's own copy: Python gives its path (ops/image/formats.py). Without it, and for every file that
// it cannot decode to the end (damaged ones, four-channel ones, too large ones), `decode_jpeg` returns nothing, and the
// kernel in Python takes over, which reports errors.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace thalweg {

struct JpegOptions {
  int64_t channels = 0;  // 0: as many as the file has
  int64_t ratio = 1;     // 1, 2, 4 or 8: divides height and width
  bool fancy_upscaling = true;
  bool accurate = false;  // the DCT
  // Of a file that ends early: the part of its lines that must be present (the others are black then), or that libjpeg
  // extrapolates the missing ones.
  double enough = 1;
  bool invent_rest = false;
};

// Loads the library from a file; whether it exists and has the supported version. Once: later calls change nothing if
// an earlier one has succeeded.
bool load_libjpeg(const std::string& path);

// A picture, [height, width, channels] of uint8. Any number of threads may call at once.
std::optional<Tensor> decode_jpeg(std::string_view file, const JpegOptions& options);

}  // namespace thalweg
