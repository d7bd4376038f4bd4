// Strings: joining, cutting, measuring, stripping, hashing and base64.
#include "compute/elementwise/elementwise.h"
#include "strings/hash.h"

namespace thalweg {
namespace {

using Strings = Types<DType::string>;

struct StringJoin : Kernel {
  explicit StringJoin(const Construction& c) : separator(c.attr<std::string>("separator", "")) {}
  void compute(Context& ctx) override {
    // Scalars are repeated; everything else has one shape.
    Shape shape;
    bool found = false;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Shape& s = ctx.input(i).shape();
      if (s.rank() == 0) continue;
      require(!found || s == shape, "Input shapes do not match: ", shape, " vs. ", s);
      shape = s;
      found = true;
    }
    Tensor& out = ctx.allocate(0, shape);
    for (int64_t k = 0; k < out.num_elements(); ++k) {
      std::string& to = out.strings()[k];
      for (int i = 0; i < ctx.num_inputs(); ++i) {
        if (i > 0) to += separator;
        to += ctx.input(i).strings()[ctx.input(i).rank() == 0 ? 0 : k];
      }
    }
  }
  std::string separator;
};

struct AddStrings : Kernel {
  explicit AddStrings(const Construction&) {}
  void compute(Context& ctx) override {
    Broadcast broadcast(ctx.input(0).shape(), ctx.input(1).shape());
    Tensor& out = ctx.allocate(0, broadcast.shape());
    if (out.num_elements() == 0) return;
    const std::string *a = ctx.input(0).strings(), *b = ctx.input(1).strings();
    int last = broadcast.rank() - 1;
    for_each_row(broadcast, [&](int64_t o, int64_t i, int64_t j, int64_t n) {
      for (int64_t k = 0; k < n; ++k)
        out.strings()[o + k] = a[i + k * broadcast.stride_a(last)] + b[j + k * broadcast.stride_b(last)];
    });
  }
};

bool counts_characters(const Construction& c) {
  std::string unit = c.attr<std::string>("unit", "BYTE");
  require(unit == "BYTE" || unit == "UTF8_CHAR", "unit must be BYTE or UTF8_CHAR, not ", unit);
  return unit == "UTF8_CHAR";
}

// Bytes of the form 10xxxxxx continue a character.
bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

int64_t count_characters(const std::string& text) { return std::count_if(text.begin(), text.end(), starts_character); }

// The byte at which character `index` starts; the end if there are not so many.
size_t offset_of(const std::string& text, int64_t index, size_t from = 0) {
  size_t at = from;
  for (; index > 0 && at < text.size(); --index) do
      ++at;
    while (at < text.size() && !starts_character(text[at]));
  return at;
}

struct StringLength : Kernel {
  explicit StringLength(const Construction& c) : characters(counts_characters(c)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Tensor& out = ctx.allocate(0, in.shape());
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const std::string& text = in.strings()[i];
      out.flat<int32_t>()[i] = static_cast<int32_t>(characters ? count_characters(text) : text.size());
    }
  }
  bool characters;
};

struct Substr : Kernel {
  explicit Substr(const Construction& c) : characters(counts_characters(c)) {}
  void compute(Context& ctx) override {
    const Tensor &in = ctx.input(0), &position = ctx.input(1), &length = ctx.input(2);
    require(position.shape() == length.shape(), "pos and len should have the same shape, got: ", position.shape(),
            " vs. ", length.shape());
    Broadcast broadcast(in.shape(), position.shape());
    Tensor out(DType::string, broadcast.shape());
    if (out.num_elements() > 0) {
      std::vector<int64_t> positions = to_int64s(position), lengths = to_int64s(length);
      int last = broadcast.rank() - 1;
      int64_t inner = broadcast.size(last), rows = out.num_elements() / inner;
      // Not for_each_row: a position can be out of range, and nothing may throw in parallel.
      for (int64_t r = 0; r < rows; ++r) {
        int64_t left = r, a = 0, b = 0;
        for (int d = last - 1; d >= 0; --d) {
          a += left % broadcast.size(d) * broadcast.stride_a(d);
          b += left % broadcast.size(d) * broadcast.stride_b(d);
          left /= broadcast.size(d);
        }
        for (int64_t k = 0; k < inner; ++k) {
          int64_t j = b + k * broadcast.stride_b(last);
          out.strings()[r * inner + k] =
              cut(in.strings()[a + k * broadcast.stride_a(last)], positions[j], lengths[j], r * inner + k);
        }
      }
    }
    ctx.set_output(0, std::move(out));
  }

  std::string cut(const std::string& text, int64_t position, int64_t length, int64_t index) const {
    auto size = static_cast<int64_t>(characters ? count_characters(text) : text.size());
    require(position >= -size && position <= size, "pos ", position, " out of range for string '", text, "' at index ",
            index);
    if (position < 0) position += size;
    length = length < 0 ? size - position : std::min(length, size - position);
    if (!characters) return text.substr(position, length);
    size_t begin = offset_of(text, position), end = offset_of(text, length, begin);
    return text.substr(begin, end - begin);
  }
  bool characters;
};

void string_strip(Context& ctx) {
  const Tensor& in = ctx.input(0);
  Tensor& out = ctx.allocate(0, in.shape());
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    const std::string& text = in.strings()[i];
    size_t begin = text.find_first_not_of(kSpace), end = text.find_last_not_of(kSpace);
    if (begin != std::string::npos) out.strings()[i] = text.substr(begin, end - begin + 1);
  }
}

template <typename Hash>
void hash_each(Context& ctx, int64_t buckets, const Hash& hash) {
  const Tensor& in = ctx.input(0);
  Tensor& out = ctx.allocate(0, in.shape());
  parallel_for(in.num_elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      out.flat<int64_t>()[i] = static_cast<int64_t>(hash(in.strings()[i]) % static_cast<uint64_t>(buckets));
  });
}

struct HashBucket : Kernel {
  explicit HashBucket(const Construction& c) : buckets(c.attr<int64_t>("num_buckets")) {
    require(buckets >= 1, "num_buckets must be at least 1, got ", buckets);
  }
  int64_t buckets;
};
struct StringToHashBucket : HashBucket {
  using HashBucket::HashBucket;
  void compute(Context& ctx) override {
    hash_each(ctx, buckets, [](const std::string& s) { return murmur_hash64(s, 0xDECAFCAFFEu); });
  }
};
struct StringToHashBucketFast : HashBucket {
  using HashBucket::HashBucket;
  void compute(Context& ctx) override {
    hash_each(ctx, buckets, [](const std::string& s) { return fingerprint64(s); });
  }
};
struct StringToHashBucketStrong : HashBucket {
  explicit StringToHashBucketStrong(const Construction& c) : HashBucket(c), key(c.attr<std::vector<int64_t>>("key")) {
    require(key.size() == 2, "Key must have 2 elements, got ", key.size());
  }
  void compute(Context& ctx) override {
    auto key0 = static_cast<uint64_t>(key[0]), key1 = static_cast<uint64_t>(key[1]);
    hash_each(ctx, buckets, [=](const std::string& s) { return sip_hash(key0, key1, s); });
  }
  std::vector<int64_t> key;
};

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct EncodeBase64 : Kernel {
  explicit EncodeBase64(const Construction& c) : pad(c.attr<bool>("pad", false)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Tensor& out = ctx.allocate(0, in.shape());
    for (int64_t i = 0; i < in.num_elements(); ++i) {
      const std::string& text = in.strings()[i];
      std::string& to = out.strings()[i];
      for (size_t k = 0; k < text.size(); k += 3) {
        size_t left = std::min<size_t>(3, text.size() - k);
        uint32_t bits = 0;
        for (size_t b = 0; b < 3; ++b) bits = bits << 8 | (b < left ? static_cast<uint8_t>(text[k + b]) : 0u);
        for (size_t b = 0; b <= left; ++b) to += kAlphabet[bits >> (18 - 6 * b) & 63];
        if (pad) to.append(3 - left, '=');
      }
    }
  }
  bool pad;
};

std::string decode_base64(std::string_view text) {
  if (text.size() % 4 == 0)
    for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  require(text.size() % 4 != 1, "Base64 string length cannot be 1 modulo 4.");
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (char c : text) {
    size_t value = kAlphabet.find(c);
    require(value != std::string_view::npos, "Invalid character found in base64.");
    bits = (bits << 6 | static_cast<uint32_t>(value)) & 0xffffu;
    have += 6;
    if (have >= 8) {
      have -= 8;
      out += static_cast<char>(bits >> have & 0xff);
    }
  }
  return out;
}

void decode_base64(Context& ctx) {
  const Tensor& in = ctx.input(0);
  Tensor out(DType::string, in.shape());
  for (int64_t i = 0; i < in.num_elements(); ++i) out.strings()[i] = decode_base64(std::string_view(in.strings()[i]));
  ctx.set_output(0, std::move(out));
}

REGISTER(kernel("StringJoin").make<StringJoin>());
REGISTER(kernel("Add").types("T", Strings{}).make<AddStrings>());
REGISTER(kernel("StringLength").make<StringLength>());
REGISTER(kernel("Substr").make<Substr>());
REGISTER(kernel("StringStrip").function<string_strip>());
REGISTER(kernel("StringToHashBucket").make<StringToHashBucket>());
REGISTER(kernel("StringToHashBucketFast").make<StringToHashBucketFast>());
REGISTER(kernel("StringToHashBucketStrong").make<StringToHashBucketStrong>());
REGISTER(kernel("EncodeBase64").make<EncodeBase64>());
REGISTER(kernel("DecodeBase64").function<decode_base64>());

}  // namespace
}  // namespace thalweg
