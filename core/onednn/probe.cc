// The probe that a child process runs before oneDNN is trusted with the CPU's flags.
#include "onednn/probe.h"

#include <cstdlib>
#include <vector>

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
    std::vector<char> zeros(desc.get_size(), 0);
    std::copy(zeros.begin(), zeros.end(), static_cast<char*>(a.get_data_handle()));
    std::copy(zeros.begin(), zeros.end(), static_cast<char*>(b.get_data_handle()));
    dnnl::matmul(pd).execute(stream, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}});
    stream.wait();
    return static_cast<float*>(c.get_data_handle())[0] == 0.0f;
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
