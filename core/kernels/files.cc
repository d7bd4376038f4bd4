// ReadFile and WriteFile: whole files as strings.
#include "io/whole_file.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

const std::string& scalar(Context& ctx, int i, const char* what) {
  require(ctx.input(i).rank() == 0, what, " must be a scalar, got shape ", ctx.input(i).shape());
  return *ctx.input(i).strings();
}

void read_file(Context& ctx) { ctx.set_output(0, Tensor::scalar(read_whole_file(scalar(ctx, 0, "filename")))); }
void write_file(Context& ctx) { write_whole_file(scalar(ctx, 0, "filename"), scalar(ctx, 1, "contents")); }

REGISTER(kernel("ReadFile").function<read_file>());
REGISTER(kernel("WriteFile").function<write_file>());

}  // namespace
}  // namespace thalweg
