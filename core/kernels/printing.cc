// Assert, Print, StringFormat, CheckNumerics and Timestamp: ops that report values to the user.
#include <atomic>
#include <chrono>
#include <cstdio>

#include "compute/elementwise/elementwise.h"
#include "tensor/summary.h"

namespace thalweg {
namespace {

struct Assert : Kernel {
  explicit Assert(const Construction& c) : limit(c.attr<int64_t>("summarize", 3)) {}
  void compute(Context& ctx) override {
    const Tensor& condition = ctx.input(0);
    require(condition.num_elements() == 1, "the condition of an assertion must be a scalar, got shape ",
            condition.shape());
    if (condition.flat<bool>()[0]) return;
    std::string message = "assertion failed:";
    for (int i = 1; i < ctx.num_inputs(); ++i) message += " [" + summarize(ctx.input(i), limit) + "]";
    fail(Code::invalid_argument, message);
  }
  int64_t limit;
};

struct Print : Kernel {
  explicit Print(const Construction& c)
      : message(c.attr<std::string>("message", "")),
        first_n(c.attr<int64_t>("first_n", -1)),
        limit(c.attr<int64_t>("summarize", 3)) {}
  void compute(Context& ctx) override {
    ctx.set_output(0, ctx.input(0));
    if (first_n >= 0 && printed.fetch_add(1) >= first_n) return;
    std::string line = message;
    for (int i = 1; i < ctx.num_inputs(); ++i) line += "[" + summarize(ctx.input(i), limit) + "]";
    line += "\n";
    // In one piece, so that lines of concurrent steps do not mix.
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
  }
  std::string message;
  int64_t first_n, limit;
  std::atomic<int64_t> printed{0};
};

struct StringFormat : Kernel {
  explicit StringFormat(const Construction& c)
      : pieces(1), edge(c.attr<int64_t>("summarize", 3)), given(c.num_inputs()) {
    auto text = c.attr<std::string>("template", "%s"), placeholder = c.attr<std::string>("placeholder", "%s");
    require(!placeholder.empty(), "the placeholder of a template must not be empty");
    size_t begin = 0;
    for (size_t at; (at = text.find(placeholder, begin)) != std::string::npos; begin = at + placeholder.size()) {
      pieces.back() = text.substr(begin, at - begin);
      pieces.emplace_back();
    }
    pieces.back() = text.substr(begin);
    require(static_cast<int>(pieces.size()) == given + 1,
            "num placeholders in template and num inputs must match: ", pieces.size() - 1, " vs. ", given);
  }
  void compute(Context& ctx) override {
    std::string out = pieces[0];
    for (int i = 0; i < given; ++i) out += format(ctx.input(i), edge) + pieces[i + 1];
    ctx.set_output(0, Tensor::scalar(std::move(out)));
  }
  std::vector<std::string> pieces;
  int64_t edge;
  int given;
};

struct CheckNumerics : Kernel {
  explicit CheckNumerics(const Construction& c) : message(c.attr<std::string>("message", "")) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    std::atomic<bool> nan{false}, inf{false};
    dispatch(in.dtype(), Floats{}, [&]<typename T>() {
      const T* x = in.flat<T>();
      parallel_for(in.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
        // x - x is zero for finite numbers only: one test that vectorizes, and a second look where it fails.
        Compute<T> sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += static_cast<Compute<T>>(x[i]) - static_cast<Compute<T>>(x[i]);
        if (sum == 0) return;
        for (int64_t i = begin; i < end; ++i) {
          auto value = static_cast<Compute<T>>(x[i]);
          if (std::isnan(value)) nan = true;
          if (std::isinf(value)) inf = true;
        }
      });
    });
    if (nan || inf)
      fail(Code::invalid_argument, message, " : Tensor had ",
           nan && inf ? "Inf and NaN"
           : nan      ? "NaN"
                      : "Inf",
           " values");
    ctx.set_output(0, in);
  }
  std::string message;
};

void timestamp(Context& ctx) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  ctx.set_output(0, Tensor::scalar(std::chrono::duration<double>(now).count()));
}

REGISTER(kernel("Assert").make<Assert>());
REGISTER(kernel("Print").make<Print>());
REGISTER(kernel("StringFormat").make<StringFormat>());
REGISTER(kernel("CheckNumerics").types("T", Floats{}).make<CheckNumerics>());
REGISTER(kernel("Timestamp").function<timestamp>());

}  // namespace
}  // namespace thalweg
