// Boxes in images: DrawBoundingBoxes and SampleDistortedBoundingBox.
#include "compute/images/resize.h"
#include "compute/random/random_state.h"
#include "random/distributions.h"

namespace thalweg {
namespace {

// The colours of successive boxes where the caller gives none: TensorFlow's ten.
constexpr float kPalette[10][4] = {{1, 1, 0, 1},       {0, 0, 1, 1},       {1, 0, 0, 1},    {0, 1, 0, 1},
                                   {0.5f, 0, 0.5f, 1}, {0.5f, 0.5f, 0, 1}, {0.5f, 0, 0, 1}, {0, 0, 0.5f, 1},
                                   {0, 1, 1, 1},       {1, 0, 1, 1}};

// A relative coordinate as a pixel, kept within what an integer holds; NaN gives -1, outside every image.
int64_t pixel(float relative, int64_t size) {
  float at = relative * static_cast<float>(size - 1);
  return std::isnan(at) ? -1 : static_cast<int64_t>(std::clamp(at, -1e9f, 1e9f));
}

void draw_bounding_boxes(Context& ctx) {
  const Tensor &images = ctx.input(0), &boxes = ctx.input(1);
  require(images.rank() == 4, "The rank of the images should be 4, got shape ", images.shape());
  require(boxes.rank() == 3 && boxes.dim(2) == 4, "The boxes tensor must have shape [batch, num_boxes, 4], got ",
          boxes.shape());
  require(images.dim(0) == boxes.dim(0), "The batch sizes should be the same, got ", images.shape(), " and ",
          boxes.shape());
  const int64_t rows = images.dim(1), columns = images.dim(2), channels = images.dim(3);
  require(channels == 1 || channels == 3 || channels == 4, "Channel depth should be either 1 (GRY), 3 (RGB), or 4 ",
          "(RGBA), got ", channels);
  std::vector<std::array<float, 4>> colors;
  if (ctx.num_inputs() > 2 && ctx.input(2).num_elements() > 0) {
    const Tensor& given = ctx.input(2);
    require(given.rank() == 2 && given.dim(1) >= channels, "colors must be a matrix with at least ", channels,
            " columns, got shape ", given.shape());
    for (int64_t i = 0; i < given.dim(0); ++i) {
      std::array<float, 4> color{};
      for (int64_t c = 0; c < channels; ++c) color[c] = given.flat<float>()[i * given.dim(1) + c];
      colors.push_back(color);
    }
  } else {
    for (const auto& color : kPalette) colors.push_back({color[0], color[1], color[2], color[3]});
    if (channels == 1)
      for (auto& color : colors) color[0] = 1;
  }
  Tensor& out = ctx.forward_or_allocate({0}, 0, images.shape());
  if (out.raw() != images.raw()) copy_elements(images.dtype(), out.raw(), images.raw(), images.num_elements());
  if (out.num_elements() == 0) return;
  dispatch(images.dtype(), Types<DType::float16, DType::float32>{}, [&]<typename T>() {
    for (int64_t i = 0; i < boxes.dim(0) * boxes.dim(1); ++i) {
      T* image = out.flat<T>() + i / boxes.dim(1) * rows * columns * channels;
      const auto& color = colors[static_cast<size_t>(i % boxes.dim(1)) % colors.size()];
      auto paint = [&](int64_t y, int64_t x) {
        for (int64_t c = 0; c < channels; ++c) image[(y * columns + x) * channels + c] = T(color[c]);
      };
      const float* box = boxes.flat<float>() + i * 4;
      int64_t top = pixel(box[0], rows), left = pixel(box[1], columns);
      int64_t bottom = pixel(box[2], rows), right = pixel(box[3], columns);
      if (top > bottom || left > right || top >= rows || bottom < 0 || left >= columns || right < 0) continue;
      int64_t first_x = std::max<int64_t>(0, left), last_x = std::min(right, columns - 1);
      int64_t first_y = std::max<int64_t>(0, top), last_y = std::min(bottom, rows - 1);
      for (int64_t x = first_x; x <= last_x; ++x) {
        if (top >= 0) paint(top, x);
        if (bottom < rows) paint(bottom, x);
      }
      for (int64_t y = first_y; y <= last_y; ++y) {
        if (left >= 0) paint(y, left);
        if (right < columns) paint(y, right);
      }
    }
  });
}

struct Rectangle {
  int64_t top = 0, left = 0, bottom = 0, right = 0;
  int64_t height() const { return bottom - top; }
  int64_t width() const { return right - left; }
  float area() const { return static_cast<float>(std::max<int64_t>(0, height()) * std::max<int64_t>(0, width())); }
};

// A whole number in [0, n) without bias: TensorFlow's way, so that equal seeds give equal crops.
uint32_t below(uint32_t n, PhiloxWords& words) {
  if (n == 0) return words() * 0;
  if ((n & (n - 1)) == 0) return words() & (n - 1);
  const uint32_t rest = ~uint32_t{0} % n + 1;
  uint32_t word;
  do word = words();
  while (word < rest);
  return word % n;
}

float unit(PhiloxWords& words) {
  return __builtin_bit_cast(float, (words() & 0x7fffffu) | (uint32_t{127} << 23)) - 1.0f;
}

struct SampleDistortedBoundingBox : Kernel {
  explicit SampleDistortedBoundingBox(const Construction& c)
      : state(c),
        covered(c.attr<float>("min_object_covered", 0.1f)),
        aspect(range(c, "aspect_ratio_range")),
        area(range(c, "area_range")),
        attempts(c.attr<int64_t>("max_attempts", 100)),
        whole_image(c.attr<bool>("use_image_if_no_bounding_boxes", false)) {
    require(aspect.first > 0 && aspect.second > 0, "aspect_ratio_range must be positive, got ", aspect.first, " to ",
            aspect.second);
    require(area.first > 0 && area.second > 0 && area.first <= 1 && area.second <= 1,
            "area_range must lie in (0, 1], got ", area.first, " to ", area.second);
    require(attempts > 0 && attempts < (int64_t{1} << 31), "max_attempts must be positive, got ", attempts);
  }
  static std::pair<float, float> range(const Construction& c, const char* name) {
    auto values = c.attr<std::vector<double>>(name);
    require(values.size() == 2, name, " must have 2 elements, got ", values.size());
    return {static_cast<float>(values[0]), static_cast<float>(values[1])};
  }

  void compute(Context& ctx) override {
    const Tensor &size = ctx.input(0), &given = ctx.input(1);
    require(size.rank() == 1 && size.num_elements() == 3, "image_size must be a vector [height, width, channels], got ",
            "shape ", size.shape());
    require(given.rank() == 3 && given.dim(2) == 4, "bounding_boxes must have shape [batch, num_boxes, 4], got ",
            given.shape());
    int64_t sides[3];
    dispatch(size.dtype(), Join<SignedInts, Types<DType::uint8>>{}, [&]<typename T>() {
      for (int i = 0; i < 3; ++i) sides[i] = static_cast<int64_t>(size.flat<T>()[i]);
    });
    const int64_t height = sides[0], width = sides[1];
    require(height > 0 && width > 0 && height < (int64_t{1} << 31) && width < (int64_t{1} << 31),
            "image height and width must be positive, got ", height, " x ", width);
    float wanted = covered;
    if (ctx.num_inputs() > 2) {
      require(ctx.input(2).rank() == 0, "min_object_covered must be 0-D, got shape ", ctx.input(2).shape());
      wanted = *ctx.input(2).flat<float>();
    }
    require(wanted >= 0 && wanted <= 1, "min_object_covered must lie in [0, 1], got ", wanted);
    std::vector<Rectangle> boxes = rectangles(given, height, width);
    Rectangle crop = sample(ctx, boxes, height, width, wanted);
    Tensor begin(size.dtype(), Shape{3}), extent(size.dtype(), Shape{3});
    dispatch(size.dtype(), Join<SignedInts, Types<DType::uint8>>{}, [&]<typename T>() {
      const int64_t from[3] = {crop.top, crop.left, 0}, length[3] = {crop.height(), crop.width(), -1};
      for (int i = 0; i < 3; ++i) {
        begin.flat<T>()[i] = static_cast<T>(from[i]);
        extent.flat<T>()[i] = static_cast<T>(length[i]);
      }
    });
    ctx.set_output(0, std::move(begin));
    ctx.set_output(1, std::move(extent));
    float* box = ctx.allocate(2, Shape{1, 1, 4}).flat<float>();
    box[0] = static_cast<float>(crop.top) / static_cast<float>(height);
    box[1] = static_cast<float>(crop.left) / static_cast<float>(width);
    box[2] = static_cast<float>(crop.bottom) / static_cast<float>(height);
    box[3] = static_cast<float>(crop.right) / static_cast<float>(width);
  }

  std::vector<Rectangle> rectangles(const Tensor& given, int64_t height, int64_t width) const {
    std::vector<Rectangle> boxes;
    for (int64_t i = 0; i < given.num_elements() / 4; ++i) {
      const float* box = given.flat<float>() + i * 4;
      for (int k = 0; k < 4; ++k)
        require(box[k] >= 0 && box[k] <= 1, "All bounding box coordinates must be in [0.0, 1.0]: ", box[k]);
      require(box[0] < box[2], "y_min must be less than y_max of a bounding box: ", box[0], " and ", box[2]);
      require(box[1] < box[3], "x_min must be less than x_max of a bounding box: ", box[1], " and ", box[3]);
      auto h = static_cast<float>(height), w = static_cast<float>(width);
      boxes.push_back({static_cast<int64_t>(box[0] * h), static_cast<int64_t>(box[1] * w),
                       static_cast<int64_t>(box[2] * h), static_cast<int64_t>(box[3] * w)});
    }
    require(!boxes.empty() || whole_image,
            "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not ",
            "provide any bounding boxes.");
    if (boxes.empty()) boxes.push_back({0, 0, height, width});
    return boxes;
  }

  Rectangle sample(const Context& ctx, const std::vector<Rectangle>& boxes, int64_t height, int64_t width,
                   float wanted) {
    // Four words of the stream are set aside for each attempt, as in TensorFlow.
    PhiloxWords words(state.reserve(ctx, static_cast<uint64_t>(attempts)));
    for (int64_t i = 0; i < attempts; ++i) {
      float ratio = unit(words) * (aspect.second - aspect.first) + aspect.first;
      Rectangle crop;
      if (attempt(height, width, ratio, words, crop) && covers_enough(crop, boxes, wanted)) return crop;
    }
    return {0, 0, height, width};
  }

  // A crop of this ratio of width to height, of an area within the range; false where there is none.
  bool attempt(int64_t image_height, int64_t image_width, float ratio, PhiloxWords& words, Rectangle& crop) const {
    if (area.first > area.second) return false;
    auto whole_height = static_cast<float>(image_height), whole_width = static_cast<float>(image_width);
    float smallest = area.first * whole_width * whole_height, largest = area.second * whole_width * whole_height;
    auto width_for = [&](int64_t height) { return std::lrint(static_cast<float>(height) * ratio); };
    int64_t height = std::lrint(std::sqrt(smallest / ratio)), tallest = std::lrint(std::sqrt(largest / ratio));
    if (width_for(tallest) > image_width) {
      // The tallest crop whose width still rounds to that of the image.
      tallest = static_cast<int64_t>((static_cast<double>(image_width) + 0.5 - 0.0000001) / static_cast<double>(ratio));
      if (width_for(tallest) > image_width) tallest -= 1;
    }
    tallest = std::min(tallest, image_height);
    height = std::min(height, tallest);
    if (height < tallest) height += below(static_cast<uint32_t>(tallest - height + 1), words);
    int64_t width = width_for(height);
    auto area_of = [&] { return static_cast<float>(width * height); };
    if (area_of() < smallest) width = width_for(++height);  // Rounding.
    if (area_of() > largest) width = width_for(--height);
    if (area_of() < smallest || area_of() > largest || width > image_width || height > image_height || width <= 0 ||
        height <= 0)
      return false;
    if (height < image_height) crop.top = below(static_cast<uint32_t>(image_height - height), words);
    if (width < image_width) crop.left = below(static_cast<uint32_t>(image_width - width), words);
    crop.bottom = crop.top + height;
    crop.right = crop.left + width;
    return true;
  }

  static bool covers_enough(const Rectangle& crop, const std::vector<Rectangle>& boxes, float wanted) {
    if (crop.area() < 1) return false;
    for (const Rectangle& box : boxes) {
      if (box.area() < 1) continue;
      Rectangle shared{std::max(crop.top, box.top), std::max(crop.left, box.left), std::min(crop.bottom, box.bottom),
                       std::min(crop.right, box.right)};
      if (shared.area() / box.area() >= wanted) return true;
    }
    return false;
  }

  RandomState state;
  float covered;
  std::pair<float, float> aspect, area;
  int64_t attempts;
  bool whole_image;
};

REGISTER(kernel("DrawBoundingBoxes").function<draw_bounding_boxes>());
REGISTER(kernel("DrawBoundingBoxesV2").function<draw_bounding_boxes>());
REGISTER(kernel("SampleDistortedBoundingBox").make<SampleDistortedBoundingBox>());
REGISTER(kernel("SampleDistortedBoundingBoxV2").make<SampleDistortedBoundingBox>());

}  // namespace
}  // namespace thalweg
