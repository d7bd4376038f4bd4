// Errors of nodes.
#include "executor/run_node.h"

#include <new>
#include <system_error>

#include "executor/stats.h"

namespace thalweg {

Error error_of(const std::exception& exception) {
  if (const auto* error = dynamic_cast<const Error*>(&exception)) return *error;
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return Error(Code::resource_exhausted, "out of memory");
  if (dynamic_cast<const std::system_error*>(&exception) != nullptr)
    return Error(Code::resource_exhausted, cat("the system has no more threads: ", exception.what()));
  return Error(Code::internal, exception.what());
}

int32_t begin_observed(const NodeSite& site, const NodeDef& def, Kernel* kernel, const Tensor* inputs) {
  return site.stats->begin(def, kernel, inputs, site.called);
}

void end_observed(const NodeSite& site, int32_t record, bool ended, Kernel* kernel, Context& ctx,
                  const Tensor* outputs) {
  if (ended)
    site.stats->end(record, kernel, ctx, outputs);
  else
    site.stats->leave(record);
}

void rethrow_from(const NodeDef& node) {
  try {
    throw;
  } catch (Error& error) {
    error.set_node(node.name, node.op);
    throw;
  } catch (const std::exception& exception) {
    Error error = error_of(exception);
    error.set_node(node.name, node.op);
    throw error;
  }
}

void fail_unset(const NodeDef& node, int output) {
  Error error(Code::internal, cat("the kernel left output ", output, " unset"));
  error.set_node(node.name, node.op);
  throw error;
}

}  // namespace thalweg
