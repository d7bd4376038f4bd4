// Machine code for element-wise ops: AVX-512 gives the bits of AVX2, for every op, type, length and position in memory.
#include "compute/elementwise/elementwise_code.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "compute/elementwise/record_op.h"
#include "kernel/registry.h"
#include "thread/denormals.h"

namespace {

using namespace thalweg;
using code::Vectors;
using Bytes = std::vector<unsigned char>;

// The probe of the instruction set needs Python (compute/onednn/engine.h): here the processor's word must do.
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

constexpr DType kTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::int64,
                            DType::boolean, DType::uint8,   DType::int8,    DType::uint16,   DType::int16};

// Numbers of all sizes, among them those where something changes: zeros, infinities, several NaNs, subnormal numbers.
template <typename Bits, typename T>
void fill_floats(std::mt19937_64& random, Bits* to, size_t n) {
  constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto infinity = std::bit_cast<Bits>(T(std::numeric_limits<float>::infinity()));
  const auto one = std::bit_cast<Bits>(T(1.0f)), half = std::bit_cast<Bits>(T(0.5f));
  const Bits special[] = {0,
                          sign,
                          infinity,
                          static_cast<Bits>(infinity | sign),
                          static_cast<Bits>(infinity + 1),
                          static_cast<Bits>(infinity + infinity / 8),
                          static_cast<Bits>(sign | (infinity + 3)),
                          1,
                          static_cast<Bits>(sign | 5),
                          static_cast<Bits>(infinity - 1),
                          one,
                          static_cast<Bits>(one | sign),
                          half,
                          static_cast<Bits>(half + 1)};
  std::normal_distribution<float> near(0, 3);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t kind = random() % 8;
    to[i] = kind == 0   ? special[random() % std::size(special)]
            : kind == 1 ? static_cast<Bits>(random())
                        : std::bit_cast<Bits>(T(near(random)));
  }
}

Bytes random_elements(std::mt19937_64& random, DType type, size_t n) {
  Bytes bytes(n * size_of(type));
  void* const to = bytes.data();
  switch (type) {
    case DType::float32:
      fill_floats<uint32_t, float>(random, static_cast<uint32_t*>(to), n);
      break;
    case DType::float64:
      fill_floats<uint64_t, double>(random, static_cast<uint64_t*>(to), n);
      break;
    case DType::float16:
      fill_floats<uint16_t, half>(random, static_cast<uint16_t*>(to), n);
      break;
    case DType::bfloat16:
      fill_floats<uint16_t, bfloat16>(random, static_cast<uint16_t*>(to), n);
      break;
    default:
      for (auto& byte : bytes) byte = static_cast<unsigned char>(type == DType::boolean ? random() % 2 : random());
      // Small numbers, which are often equal.
      if (type != DType::boolean)
        for (size_t i = 0; i < n; i += 2) std::memset(&bytes[i * size_of(type)], i % 4 == 0 ? 0 : 0xff, size_of(type));
  }
  return bytes;
}

struct Chain {
  std::vector<DType> inputs;
  std::vector<ElementwiseCode::Op> ops;
  std::vector<char> scalar;  // of the inputs and the ops
};

// The results for inputs that begin `offset` elements into their memory; empty if there is no code.
Bytes run(const Chain& chain, Vectors vectors, const std::vector<Bytes>& inputs, size_t n, size_t offset) {
  const auto code = ElementwiseCode::compile(chain.inputs, chain.ops, chain.scalar, vectors);
  if (code == nullptr) return {};
  std::vector<const void*> at(chain.scalar.size());
  for (size_t i = 0; i < inputs.size(); ++i) at[i] = inputs[i].data() + offset * size_of(chain.inputs[i]);
  Bytes out((n + 1) * size_of(chain.ops.back().dtype), 0xa5);
  code->run(at.data(), at.data(), out.data() + size_of(chain.ops.back().dtype), static_cast<int64_t>(n));
  return out;
}

// Two NaNs are equal: which of several operands' is the result depends on the order in which an addition reads them.
bool is_same(const Bytes& a, const Bytes& b, DType type) {
  if (a == b) return true;
  if (a.size() != b.size()) return false;
  const auto is_nan = [&](const Bytes& from, size_t i) {
    const auto read = [&]<typename T>(T x) {
      std::memcpy(&x, from.data() + i, sizeof x);
      return std::isnan(static_cast<double>(x));
    };
    return type == DType::float32   ? read(float())
           : type == DType::float64 ? read(double())
           : type == DType::float16 ? read(half())
                                    : type == DType::bfloat16 && read(bfloat16());
  };
  for (size_t i = 0, size = size_of(type); i < a.size(); i += size)
    if (std::memcmp(&a[i], &b[i], size) != 0 && !(is_nan(a, i) && is_nan(b, i))) return false;
  return true;
}

// Whether there is code; fails where the two kinds of it differ.
bool compare(const std::string& what, const Chain& chain, uint64_t seed) {
  std::mt19937_64 random(seed);
  constexpr size_t kMost = 2100;
  std::vector<Bytes> inputs;
  for (DType type : chain.inputs) inputs.push_back(random_elements(random, type, kMost));
  for (const size_t n : {1, 7, 16, 33, 64, 257, 2051}) {
    const size_t offset = n % 5;
    const Bytes narrow = run(chain, Vectors::avx2, inputs, n, offset);
    const Bytes wide = run(chain, Vectors::avx512, inputs, n, offset);
    CHECK_EQUAL(narrow.empty(), wide.empty());
    if (narrow.empty()) return false;
    if (!is_same(narrow, wide, chain.ops.back().dtype)) {
      const size_t size = size_of(chain.ops.back().dtype);
      size_t i = 0;
      while (std::memcmp(&narrow[i * size], &wide[i * size], size) == 0) ++i;
      check::fail(__FILE__, __LINE__, cat(what, " differs, of ", n, " elements first the one before ", i));
    }
  }
  return true;
}

// Whether an op gives truth values.
bool is_truth(ElementwiseCode::Record record, DType type, size_t count) {
  code::Recording recording;
  const code::Lane lane = lane_type(type).lane;
  const int operands[] = {recording.parameter(0, lane), count == 2 ? recording.parameter(1, lane) : code::kNone};
  const int value = record(recording, lane, operands);
  if (value == code::kNone) return false;
  return recording.at(value).op == code::Opcode::compare || recording.at(value).lane == code::Lane::truth;
}

TEST(every_op_on_every_type_has_the_same_bits) {
  if (!has_avx512()) return;
  int found = 0;
  for (const bool flushes : {false, true}) {
    std::optional<FlushDenormals> flush;
    if (flushes) flush.emplace();
    for (const std::string& op : Registry::global().ops("CPU"))
      for (const DType type : kTypes)
        for (const DType result : {type, DType::boolean})
          for (const size_t count : {1, 2}) {
            NodeDef def;
            def.op = op;
            def.attrs["T"] = type;
            const auto record = Registry::global().elementwise(def).record;
            if (record == nullptr || !lane_type(type).known || !lane_type(result).known) continue;
            const std::vector<DType> types(count, type);
            if (!can_record(op, types, result) || is_truth(record, type, count) != (result == DType::boolean)) continue;
            for (const bool scalar : {false, true}) {
              if (scalar && count == 1) continue;
              const Chain chain{types, {{op, {0, count == 2 ? 1 : -1, -1}, result, nullptr}}, [&] {
                                  std::vector<char> flags(count + 1);
                                  flags[count - 1] = scalar;
                                  return flags;
                                }()};
              found += compare(cat(op, " of ", name_of(type)), chain, static_cast<uint64_t>(found));
            }
          }
  }
  CHECK(found > 400);
}

TEST(casts_and_selections_have_the_same_bits) {
  if (!has_avx512()) return;
  int found = 0;
  for (const DType from : kTypes) {
    for (const DType to : kTypes)
      found += compare(cat("Cast from ", name_of(from), " to ", name_of(to)),
                       {{from}, {{"Cast", {0, -1, -1}, to, nullptr}}, {0, 0}}, 5);
    found += compare(cat("Select of ", name_of(from)),
                     {{DType::boolean, from, from}, {{"Select", {0, 1, 2}, from, nullptr}}, {0, 0, 0, 0}}, 6);
  }
  CHECK(found > 50);
}

// Many values at once, comparisons that are read late and more than once: registers and mask registers run out.
void compare_random_chain(DType type, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<std::string> arithmetic = {"AddV2", "Sub", "Mul", "Maximum", "SquaredDifference", "RealDiv"};
  const std::vector<std::string> unary = {"Neg", "Abs", "Square", "Tanh", "Exp", "Relu", "Sigmoid", "Log1p"};
  const std::vector<std::string> relations = {"Less", "LessEqual", "Equal", "NotEqual", "Greater"};
  const std::vector<std::string> logic = {"LogicalAnd", "LogicalOr", "Equal", "NotEqual"};
  Chain chain{{type, type, type, DType::boolean}, {}, {}};
  std::vector<int> numbers{0, 1, 2}, truths{3};
  const auto any = [&](const auto& list) { return list[random() % list.size()]; };
  const auto recent = [&](const std::vector<int>& values) {
    return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 40)];
  };
  const auto add = [&](const std::string& op, std::array<int, 3> operands, DType result) {
    (result == DType::boolean ? truths : numbers).push_back(static_cast<int>(4 + chain.ops.size()));
    chain.ops.push_back({op, operands, result, nullptr});
  };
  const size_t length = 5 + random() % 80;
  for (size_t i = 0; i < length; ++i) {
    switch (random() % 6) {
      case 0:
        add(any(relations), {recent(numbers), recent(numbers), -1}, DType::boolean);
        break;
      case 1:
        add(any(logic), {recent(truths), recent(truths), -1}, DType::boolean);
        break;
      case 2:
        add("Select", {recent(truths), recent(numbers), recent(numbers)}, type);
        break;
      case 3:
        add(any(unary), {recent(numbers), -1, -1}, type);
        break;
      default:
        add(any(arithmetic), {recent(numbers), recent(numbers), -1}, type);
    }
  }
  // In the end all are read.
  for (const int truth : std::vector<int>(truths)) {
    const int chosen = recent(numbers);
    add("Select", {truth, chosen, recent(numbers)}, type);
    add("Maximum", {numbers.back(), numbers[numbers.size() - 2], -1}, type);
  }
  if (seed % 4 == 0) add("Less", {numbers.back(), 0, -1}, DType::boolean);
  chain.scalar.resize(4 + chain.ops.size());
  chain.scalar[2] = seed % 3 == 0;
  CHECK(compare(cat("chain ", seed, " of ", name_of(type)), chain, seed));
}

TEST(long_chains_have_the_same_bits) {
  if (!has_avx512()) return;
  for (const DType type : {DType::float32, DType::float64, DType::float16})
    for (uint64_t seed = 0; seed < 60; ++seed) compare_random_chain(type, seed);
}

}  // namespace
