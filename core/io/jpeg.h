// Decoding JPEG files by libjpeg, into tensors, without the GIL.
//
// The library is Pillow's own copy: Python tells where it is (ops/image/formats.py). Without it, and for every file
// that it cannot decode to the end (damaged ones, four-channel ones, too large ones), `decode_jpeg` has no answer, and
// the kernel in Python takes over, which knows what to say.
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
  // Of a file that ends early: which part of its lines must be there (the others are black then), or that libjpeg
  // extrapolates them.
  double enough = 1;
  bool invent_rest = false;
};

// Loads the library from a file; whether it is there and has the version that we know. Once: later calls change nothing
// if an earlier one has succeeded.
bool load_libjpeg(const std::string& path);

// A picture, [height, width, channels] of uint8. Any number of threads may call at once.
std::optional<Tensor> decode_jpeg(std::string_view file, const JpegOptions& options);

}  // namespace thalweg
