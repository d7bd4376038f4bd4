// Recording the ops of a chain, and running their code.
#include "compute/elementwise/elementwise_code.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "compute/elementwise/record_op.h"
#include "compute/lanes/instruction_set.h"

namespace thalweg {
namespace {

constexpr size_t kMostParameters = 64;

// The bits that a lane has for a scalar.
uint64_t lane_bits(DType type, const void* value) {
  const LaneType lane = lane_type(type);
  uint64_t bits = 0;
  const auto put = [&](auto x) { std::memcpy(&bits, &x, sizeof x); };
  switch (type) {
    case DType::boolean:
      return *static_cast<const bool*>(value) ? ~uint64_t{0} : 0;
    case DType::float16:
      put(static_cast<float>(*static_cast<const half*>(value)));
      return bits;
    case DType::bfloat16:
      put(static_cast<float>(*static_cast<const bfloat16*>(value)));
      return bits;
    case DType::uint8:
      put(int32_t{*static_cast<const uint8_t*>(value)});
      return bits;
    case DType::int8:
      put(int32_t{*static_cast<const int8_t*>(value)});
      return bits;
    case DType::uint16:
      put(int32_t{*static_cast<const uint16_t*>(value)});
      return bits;
    case DType::int16:
      put(int32_t{*static_cast<const int16_t*>(value)});
      return bits;
    default:
      std::memcpy(&bits, value, static_cast<size_t>(lane.width));
      return bits;
  }
}

}  // namespace

code::Vectors best_vectors() {
#if defined(__x86_64__)
  static std::atomic<int> known{-1};
  if (const int vectors = known.load(std::memory_order_acquire); vectors >= 0) return code::Vectors(vectors);
  const bool wide = usable_instruction_set().starts_with("AVX512") && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  known.store(static_cast<int>(wide ? code::Vectors::avx512 : code::Vectors::avx2), std::memory_order_release);
  return wide ? code::Vectors::avx512 : code::Vectors::avx2;
#else
  return code::Vectors::avx2;
#endif
}

std::unique_ptr<ElementwiseCode> ElementwiseCode::compile(std::span<const DType> inputs, std::span<const Op> ops,
                                                          std::span<const char> scalar, code::Vectors vectors) {
  if (scalar.back()) return nullptr;
  auto made = std::make_unique<ElementwiseCode>();
  std::vector<DType> types(inputs.begin(), inputs.end());
  for (const Op& op : ops) types.push_back(op.dtype);
  code::StreamCode::Plan plan;
  for (DType type : types) {
    if (!lane_type(type).known) return nullptr;
    plan.wide |= lane_type(type).width == 8;
  }
  // The values that the ops over arrays read: arrays are numbered first among the parameters, then the scalars.
  const int num_inputs = static_cast<int>(inputs.size());
  std::vector<char> is_read(scalar.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (scalar[num_inputs + i]) continue;
    for (int value : ops[i].operands)
      if (value >= 0) is_read[value] = true;
  }
  for (int v = 0; v < num_inputs; ++v)
    if (is_read[v] && !scalar[v]) made->streams_.push_back(v);
  for (size_t v = 0; v < scalar.size(); ++v)
    if (is_read[v] && scalar[v]) made->splats_.push_back(static_cast<int>(v));
  if (std::max(made->streams_.size(), made->splats_.size()) > kMostParameters) return nullptr;
  code::Recording recording;
  std::vector<int> values(scalar.size(), code::kNone);
  int number = 0;
  for (const std::vector<int>* parameters : {&made->streams_, &made->splats_}) {
    for (int v : *parameters) {
      const LaneType lane = lane_type(types[v]);
      values[v] = recording.parameter(number++, lane.lane);
      made->types_.push_back(types[v]);
      if (parameters != &made->streams_) continue;
      plan.streams.push_back(lane.memory);
      made->sizes_.push_back(size_of(types[v]));
      if (lane.memory == code::Memory::lane) continue;
      const code::Lane widened = lane.width != 0 ? lane.lane : plan.wide ? code::Lane::int64 : code::Lane::int32;
      values[v] = recording.add(
          {code::Opcode::convert, widened, values[v], code::kNone, code::kNone, code::from_memory(lane.memory)});
    }
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    if (scalar[num_inputs + i]) continue;
    std::vector<DType> operand_types;
    std::vector<int> operands;
    for (int value : ops[i].operands) {
      if (value < 0) break;
      operand_types.push_back(types[value]);
      operands.push_back(values[value]);
    }
    values[num_inputs + i] = record_op(recording, ops[i].name, operand_types, ops[i].dtype, operands, ops[i].record);
    if (values[num_inputs + i] == code::kNone) return nullptr;
  }
  plan.num_splats = static_cast<int>(made->splats_.size());
  plan.result = values.back();
  plan.out = lane_type(types.back()).memory;
  made->out_size_ = size_of(types.back());
  made->width_ = code::bytes_of(vectors) / (plan.wide ? 8 : 4);
  made->code_ = code::StreamCode::compile(recording, plan, vectors);
  if (made->code_ == nullptr) return nullptr;
  return made;
}

void ElementwiseCode::run(const void* const* inputs, const void* const* scalars, void* out, int64_t n) const {
  const void* streams[kMostParameters];
  uint64_t splats[kMostParameters];
  for (size_t i = 0; i < streams_.size(); ++i) streams[i] = inputs[streams_[i]];
  for (size_t i = 0; i < splats_.size(); ++i) splats[i] = lane_bits(types_[streams_.size() + i], scalars[splats_[i]]);
  const std::span<const uint64_t> given(splats, splats_.size());
  const int64_t vectors = n / width_ * width_;
  code_->run(streams, given, out, vectors);
  if (vectors == n) return;
  for (size_t i = 0; i < streams_.size(); ++i)
    streams[i] = static_cast<const char*>(streams[i]) + vectors * static_cast<int64_t>(sizes_[i]);
  run_rest(streams, given, static_cast<char*>(out) + vectors * static_cast<int64_t>(out_size_), n - vectors);
}

// Less than a vector is computed in one that is filled up with the last element.
void ElementwiseCode::run_rest(const void* const* streams, std::span<const uint64_t> splats, char* out,
                               int64_t n) const {
  struct alignas(64) Padded {
    unsigned char bytes[64];
  };
  Padded padded[kMostParameters + 1];
  const void* at[kMostParameters];
  for (size_t i = 0; i < sizes_.size(); ++i) {
    const auto* from = static_cast<const char*>(streams[i]);
    for (int64_t k = 0; k < width_; ++k)
      std::memcpy(padded[i].bytes + k * static_cast<int64_t>(sizes_[i]),
                  from + std::min(k, n - 1) * static_cast<int64_t>(sizes_[i]), sizes_[i]);
    at[i] = padded[i].bytes;
  }
  code_->run(at, splats, padded[kMostParameters].bytes, width_);
  std::memcpy(out, padded[kMostParameters].bytes, static_cast<size_t>(n) * out_size_);
}

}  // namespace thalweg
