// The probe that a child process runs before oneDNN is trusted with the CPU's flags.
#include "compute/onednn/probe.h"

#include <algorithm>
#include <cstdlib>

#include "dnnl.hpp"

namespace thalweg {
namespace {

bool product_runs(dnnl::memory::data_type type) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  constexpr int64_t n = 32;
  auto format = dnnl::memory::format_tag::ab;
  dnnl::memory::desc desc({n, n}, type, format), out_desc({n, n}, dnnl::memory::data_type::f32, format);
  try {
    dnnl::matmul::primitive_desc pd(engine, desc, desc, out_desc);
    dnnl::memory a(desc, engine), b(desc, engine), c(out_desc, engine);
    // Ones, so that a wrong result differs from untouched memory: 0x3f80 is 1 in bfloat16, 0x3f800000 in float32.
    const bool wide = type == dnnl::memory::data_type::f32;
    for (dnnl::memory* operand : {&a, &b}) {
      if (wide)
        std::fill_n(static_cast<float*>(operand->get_data_handle()), n * n, 1.0f);
      else
        std::fill_n(static_cast<uint16_t*>(operand->get_data_handle()), n * n, uint16_t{0x3f80});
    }
    dnnl::matmul(pd).execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
    const float* out = static_cast<const float*>(c.get_data_handle());
    return std::all_of(out, out + n * n, [](float x) { return x == static_cast<float>(n); });
  } catch (const dnnl::error& error) {
    // Without an implementation for the type nothing can trap.
    return error.status == dnnl_unimplemented;
  }
}

}  // namespace

bool probe_onednn(const std::string& isa) {
  // oneDNN reads the cap once, at its first use in the process.
  setenv("ONEDNN_MAX_CPU_ISA", isa.c_str(), 1);
  return product_runs(dnnl::memory::data_type::f32) && product_runs(dnnl::memory::data_type::bf16);
}

}  // namespace thalweg
