// Recording the ops of a chain.
#include "compute/elementwise/elementwise_code.h"

#include <bit>

#include "kernel/registry.h"

namespace thalweg {

std::unique_ptr<ElementwiseCode> ElementwiseCode::compile(int num_inputs, std::span<const Op> ops,
                                                          std::span<const char> scalar) {
  if (scalar.back()) return nullptr;
  auto made = std::make_unique<ElementwiseCode>();
  // The values that the ops over arrays read: arrays are numbered first among the parameters, then the scalars.
  std::vector<char> is_read(scalar.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (scalar[num_inputs + i]) continue;
    is_read[ops[i].left] = true;
    if (ops[i].right >= 0) is_read[ops[i].right] = true;
  }
  for (int v = 0; v < num_inputs; ++v)
    if (is_read[v] && !scalar[v]) made->streams_.push_back(v);
  for (size_t v = 0; v < scalar.size(); ++v)
    if (is_read[v] && scalar[v]) made->splats_.push_back(static_cast<int>(v));
  code::Recording recording;
  std::vector<int> values(scalar.size(), code::kNone);
  int number = 0;
  for (const std::vector<int>& parameters : {made->streams_, made->splats_})
    for (int v : parameters) values[v] = recording.parameter(number++, code::Lane::float32);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (scalar[num_inputs + i]) continue;
    NodeDef def;
    def.op = ops[i].name;
    def.attrs["T"] = DType::float32;
    const Elementwise kernel = Registry::global().elementwise(def);
    const int operands[] = {values[ops[i].left], ops[i].right < 0 ? code::kNone : values[ops[i].right]};
    const int result = kernel.record == nullptr ? code::kNone : kernel.record(recording, code::Lane::float32, operands);
    if (result == code::kNone) return nullptr;
    values[num_inputs + i] = result;
  }
  made->code_ = code::StreamCode::compile(recording, static_cast<int>(made->streams_.size()),
                                          static_cast<int>(made->splats_.size()), values.back());
  if (made->code_ == nullptr) return nullptr;
  return made;
}

void ElementwiseCode::run(const float* const* inputs, const float* scalars, float* out, int64_t n) const {
  std::vector<const void*> streams;
  std::vector<uint32_t> splats;
  for (int v : streams_) streams.push_back(inputs[v]);
  for (int v : splats_) splats.push_back(std::bit_cast<uint32_t>(scalars[v]));
  code_->run(streams.data(), splats, out, n * static_cast<int64_t>(sizeof(float)));
}

}  // namespace thalweg
