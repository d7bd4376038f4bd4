// completion: tells an asynchronous kernel's context how its work ended.
#pragma once

#include <functional>
#include <optional>

#include "kernel/kernel.h"

namespace thalweg {

inline std::function<void(std::optional<Error>)> completion(std::shared_ptr<AsyncContext> ctx) {
  return [ctx = std::move(ctx)](std::optional<Error> error) { error ? ctx->fail(*std::move(error)) : ctx->done(); };
}

// Sets outputs from `first` on.
inline void set_outputs(Context& ctx, std::vector<Tensor> values, int first = 0) {
  for (size_t i = 0; i < values.size(); ++i) ctx.set_output(first + static_cast<int>(i), std::move(values[i]));
}

// The same for work that ends with tensors, which become the outputs.
inline std::function<void(std::optional<Error>, std::vector<Tensor>)> completion_with_outputs(
    std::shared_ptr<AsyncContext> ctx) {
  return [ctx = std::move(ctx)](std::optional<Error> error, std::vector<Tensor> values) {
    if (error) return ctx->fail(*std::move(error));
    set_outputs(*ctx, std::move(values));
    ctx->done();
  };
}

}  // namespace thalweg
