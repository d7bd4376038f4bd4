// How the gradient of a filter is cut into pieces, and how their sums are added.
#include "compute/onednn/filter_gradient.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "thread/parallel.h"

namespace thalweg {
namespace {

// As many pieces as keep so many threads busy; more, the more work there is.
constexpr int64_t kEnoughPieces = 8, kMostPieces = 64;
constexpr double kLeastWork = 8 << 20, kMuchWork = 256 << 20;  // multiplications of a piece
// Pieces of the images have so many output pixels that adding a filter takes little time against computing it; more, if
// filters do not stay in the second-level cache, or if there are enough pieces.
constexpr int64_t kSmallFilter = 128 * 1024, kLeastPixels = 512, kLeastPixelsOfLarge = 1024, kManyPixels = 4096;
constexpr int64_t kChannelBlock = 16, kLeastChannels = 32;
constexpr int64_t kGrain = 16 * 1024;  // elements to add

// The number of pieces in each direction.
struct Cut {
  int64_t images = 1, channels = 1;
};

Cut cut_of(const ConvolutionShape& s) {
  const int64_t worthwhile = std::clamp<int64_t>(s.work() / kLeastWork, 1, kMostPieces);
  const int64_t wanted = std::min(worthwhile, std::clamp<int64_t>(s.work() / kMuchWork, kEnoughPieces, kMostPieces));
  const int64_t pixels = s.batch * s.out_area();
  const int64_t least = s.filter_size() <= kSmallFilter ? kLeastPixels : kLeastPixelsOfLarge;
  const int64_t most = std::min(wanted, std::max(kEnoughPieces, pixels / kManyPixels));
  Cut cut;
  cut.images = std::clamp<int64_t>(pixels / least, 1, std::min(s.batch, most));
  if (s.channels_first || s.groups > 1) return cut;
  while (cut.images * cut.channels < wanted && s.out_channels >= 2 * cut.channels * kLeastChannels) cut.channels *= 2;
  return cut;
}

struct Range {
  int64_t begin, end;
};

// Part i of `count`, of `size` in multiples of `unit`.
Range part_of(int64_t size, int64_t unit, int64_t i, int64_t count) {
  const int64_t units = (size + unit - 1) / unit;
  return {units * i / count * unit, std::min(size, units * (i + 1) / count * unit)};
}

// The sum of `count` filters, which lie one after the other, in order.
template <typename T>
void add(const float* filters, int64_t count, int64_t size, T* to) {
  parallel_for(size, kGrain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 512;
    float sums[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t some = std::min(kBlock, end - first);
      std::copy_n(filters + first, some, sums);
      for (int64_t k = 1; k < count; ++k) {
        const float* more = filters + k * size + first;
        for (int64_t i = 0; i < some; ++i) sums[i] += more[i];
      }
      for (int64_t i = 0; i < some; ++i) to[first + i] = static_cast<T>(sums[i]);
    }
  });
}

}  // namespace

bool onednn_filter_gradient(DType dtype, const ConvolutionShape& s, const ConvolutionData& data) {
  if (dtype != DType::float32 && dtype != DType::bfloat16 && dtype != DType::float16) return false;
  const Cut cut = cut_of(s);
  const int64_t size = s.filter_size(), width = size_of(dtype);
  Tensor sums;
  const bool direct = cut.images == 1 && dtype == DType::float32;
  if (!direct) sums = Tensor(DType::float32, Shape{cut.images, size});
  float* filters = direct ? static_cast<float*>(data.filter) : sums.flat<float>();

  auto piece_of = [&](int64_t index) {
    const int64_t image_piece = index / cut.channels;
    const Range images = part_of(s.batch, 1, image_piece, cut.images);
    const Range channels = part_of(s.out_channels, kChannelBlock, index % cut.channels, cut.channels);
    const int64_t input = images.begin * s.in_area() * s.in_channels;
    const int64_t output = images.begin * s.out_area() * s.out_channels + channels.begin;
    FilterGradientPiece piece{
        dtype,
        s,
        s.out_channels,
        {static_cast<char*>(data.input) + input * width, filters + image_piece * size + channels.begin,
         static_cast<char*>(data.output) + output * width}};
    piece.shape.batch = images.end - images.begin;
    piece.shape.out_channels = channels.end - channels.begin;
    return piece;
  };
  // Pieces that differ in their output channels share an input.
  std::vector<std::shared_ptr<const BlockedInput>> inputs(cut.images);
  for (int64_t i = 0; i < cut.images && cut.channels > 1; ++i)
    inputs[i] = onednn_blocked_input(piece_of(i * cut.channels));

  std::atomic<bool> refused{false};
  std::atomic_flag failed;
  std::exception_ptr failure;
  parallel_for(cut.images * cut.channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end && !refused.load(std::memory_order_relaxed); ++i) try {
        if (!onednn_filter_gradient_piece(piece_of(i), inputs[i / cut.channels].get()))
          refused.store(true, std::memory_order_relaxed);
      } catch (...) {
        if (!failed.test_and_set()) failure = std::current_exception();
      }
  });
  if (failure) std::rethrow_exception(failure);
  if (refused.load()) return false;
  if (direct) return true;
  if (dtype == DType::float32)
    add(filters, cut.images, size, static_cast<float*>(data.filter));
  else if (dtype == DType::bfloat16)
    add(filters, cut.images, size, static_cast<bfloat16*>(data.filter));
  else
    add(filters, cut.images, size, static_cast<half*>(data.filter));
  return true;
}

}  // namespace thalweg
