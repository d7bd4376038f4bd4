// libjpeg loaded at run time, its errors caught by setjmp, as its interface requires.
#include "io/jpeg.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <mutex>

#include "io/libjpeg.h"

namespace thalweg {
namespace {

using libjpeg::Decompressor;

struct Library {
  libjpeg::ErrorManager* (*std_error)(libjpeg::ErrorManager*);
  void (*create)(Decompressor*, int version, size_t size);
  void (*destroy)(Decompressor*);
  int (*read_header)(Decompressor*, int require_image);
  int (*start)(Decompressor*);
  unsigned (*read_scanlines)(Decompressor*, uint8_t** rows, unsigned most);
  int (*resync_to_restart)(Decompressor*, int wanted);
};

// Never unloaded; null until it is loaded.
std::atomic<const Library*> library{nullptr};

constexpr int kHeaderRead = 1;
// A header can claim any size: pictures beyond this are left to the kernel in Python, which reports an error.
constexpr uint64_t kMostPixels = uint64_t{1} << 28;

// One file being decoded. No function that calls the library has objects with destructors: errors jump out of it.
class Decoder {
 public:
  explicit Decoder(const Library& functions) : functions_(functions) {}
  ~Decoder() {
    if (created_) functions_.destroy(&state_);
  }
  Decoder(const Decoder&) = delete;

  // Whether the library's structures have the sizes declared in libjpeg.h.
  bool create() {
    state_.error = functions_.std_error(&error_);
    error_.error_exit = [](Decompressor* state) { std::longjmp(of(state).jump_, 1); };
    error_.emit_message = [](Decompressor*, int) {};
    error_.output_message = [](Decompressor*) {};
    state_.client_data = this;  // The library keeps this and the error manager when it clears the rest.
    if (setjmp(jump_)) return false;
    functions_.create(&state_, libjpeg::kVersion, sizeof(Decompressor));
    created_ = true;
    return true;
  }

  bool read_header(std::string_view file, const JpegOptions& options) {
    source_.next_byte = reinterpret_cast<const uint8_t*>(file.data());
    source_.bytes_left = file.size();
    source_.init = [](Decompressor*) {};
    source_.end = [](Decompressor*) {};
    source_.resync_to_restart = functions_.resync_to_restart;
    // All bytes are in the buffer from the start: a request for more means that the file ends early. Decoding then
    // stops or, with `invent_rest`, gets an end marker, after which libjpeg extrapolates the rest.
    source_.fill = [](Decompressor*) -> int { return 0; };
    if (options.invent_rest)
      source_.fill = [](Decompressor* state) -> int {
        static constexpr uint8_t kEndOfImage[] = {0xff, 0xd9};
        state->source->next_byte = kEndOfImage;
        state->source->bytes_left = sizeof kEndOfImage;
        return 1;
      };
    source_.skip = [](Decompressor* state, long bytes) {  // NOLINT: C's type
      libjpeg::Source& source = *state->source;
      size_t skipped = std::min(static_cast<size_t>(std::max(bytes, 0L)), source.bytes_left);
      source.next_byte += skipped;
      source.bytes_left -= skipped;
    };
    state_.source = &source_;
    if (setjmp(jump_)) return false;
    if (functions_.read_header(&state_, 1) != kHeaderRead) return false;
    if (state_.num_components != 1 && state_.num_components != 3) return false;
    if (uint64_t{state_.image_width} * state_.image_height > kMostPixels) return false;
    int64_t channels = options.channels == 0 ? state_.num_components : options.channels;
    state_.out_color_space = channels == 1 ? libjpeg::kGrayscale : libjpeg::kRgb;
    state_.scale_num = 1;
    state_.scale_denom = static_cast<unsigned>(options.ratio);
    state_.do_fancy_upsampling = options.fancy_upscaling;
    state_.dct_method = options.accurate ? libjpeg::kAccurate : libjpeg::kFast;
    if (!functions_.start(&state_)) return false;
    return state_.output_components == channels && state_.output_width > 0 && state_.output_height > 0;
  }

  Shape shape() const { return Shape{state_.output_height, state_.output_width, state_.output_components}; }

  // Whether all lines were decoded, or at least the part `enough`; the others are black.
  bool read_pixels(uint8_t* out, double enough) {
    constexpr unsigned kRows = 16;
    uint8_t* rows[kRows];
    const size_t stride = size_t{state_.output_width} * static_cast<size_t>(state_.output_components);
    if (setjmp(jump_)) return false;
    while (state_.output_scanline < state_.output_height) {
      unsigned count = std::min(kRows, state_.output_height - state_.output_scanline);
      for (unsigned i = 0; i < count; ++i) rows[i] = out + (state_.output_scanline + i) * stride;
      if (functions_.read_scanlines(&state_, rows, count) == 0) break;
    }
    size_t lines = state_.output_scanline, height = state_.output_height;
    if (lines == 0 || static_cast<double>(lines) < enough * static_cast<double>(height)) return false;
    if (lines < height) std::memset(out + lines * stride, 0, (height - lines) * stride);
    return true;
  }

 private:
  static Decoder& of(Decompressor* state) { return *static_cast<Decoder*>(state->client_data); }

  const Library& functions_;
  libjpeg::ErrorManager error_{};
  libjpeg::Source source_{};
  Decompressor state_{};
  std::jmp_buf jump_;
  bool created_ = false;
};

template <typename F>
bool find(void* handle, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

bool load_libjpeg(const std::string& path) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (library.load() != nullptr) return true;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return false;
  auto found = std::make_unique<Library>();
  bool complete =
      find(handle, "jpeg_std_error", &found->std_error) && find(handle, "jpeg_CreateDecompress", &found->create) &&
      find(handle, "jpeg_destroy_decompress", &found->destroy) &&
      find(handle, "jpeg_read_header", &found->read_header) && find(handle, "jpeg_start_decompress", &found->start) &&
      find(handle, "jpeg_read_scanlines", &found->read_scanlines) &&
      find(handle, "jpeg_resync_to_restart", &found->resync_to_restart);
  if (!complete || !Decoder(*found).create()) return false;
  library.store(found.release());
  return true;
}

std::optional<Tensor> decode_jpeg(std::string_view file, const JpegOptions& options) {
  const Library* functions = library.load(std::memory_order_acquire);
  if (functions == nullptr || !file.starts_with("\xff\xd8\xff")) return std::nullopt;
  if (options.channels != 0 && options.channels != 1 && options.channels != 3) return std::nullopt;
  if (options.ratio != 1 && options.ratio != 2 && options.ratio != 4 && options.ratio != 8) return std::nullopt;
  Decoder decoder(*functions);
  if (!decoder.create() || !decoder.read_header(file, options)) return std::nullopt;
  Tensor out(DType::uint8, decoder.shape());
  if (!decoder.read_pixels(out.flat<uint8_t>(), options.enough)) return std::nullopt;
  return out;
}

}  // namespace thalweg
