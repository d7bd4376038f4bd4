// Reading Arrow's C data interface, and packing four bytes a pixel to three.
#include "python/pixels.h"

#include <immintrin.h>

#include "python/gil.h"

namespace thalweg {
namespace {

// As https://arrow.apache.org/docs/format/CDataInterface.html lays it out.
struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

// Drops every fourth byte.
void pack(const uint8_t* from, uint8_t* to, int64_t pixels) {
  const __m128i order = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  int64_t i = 0;
  // Four pixels at a time; a store writes four bytes more, which the next one replaces.
  for (; i + 6 <= pixels; i += 4) {
    __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 4 * i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * i), _mm_shuffle_epi8(four, order));
  }
  for (; i < pixels; ++i)
    for (int c = 0; c < 3; ++c) to[3 * i + c] = from[4 * i + c];
}

}  // namespace

Tensor pixels_from_arrow(PyObject* capsule, int64_t height, int64_t width, int64_t channels) {
  auto* array = static_cast<ArrowArray*>(PyCapsule_GetPointer(capsule, "arrow_array"));
  if (array == nullptr) {
    PyErr_Clear();
    fail(Code::invalid_argument, "expected a capsule of an Arrow array");
  }
  require(channels == 1 || channels == 3, "an image of ", channels, " channels");
  Tensor out(DType::uint8, Shape{height, width, channels});
  const int64_t pixels = height * width;
  const ArrowArray* values = array;
  if (channels == 3) {
    require(array->n_children == 1 && array->children != nullptr, "an image of colours without its bytes");
    values = array->children[0];
  }
  const int64_t stored = channels == 3 ? 4 : 1;
  require(array->release != nullptr && array->length == pixels && array->offset == 0 && values->offset == 0 &&
              values->length == pixels * stored && values->n_buffers == 2 && values->buffers[1] != nullptr,
          "an image of ", height, " x ", width, " pixels in an Arrow array of ", array->length);
  const auto* from = static_cast<const uint8_t*>(values->buffers[1]);
  auto* to = out.flat<uint8_t>();
  WithoutGil released;
  if (channels == 3)
    pack(from, to, pixels);
  else
    std::memcpy(to, from, static_cast<size_t>(pixels));
  return out;
}

}  // namespace thalweg
