// LSTMBlockCell, BlockLSTM and GRUBlockCell: whole cells, and whole loops over time, as single ops; in float32.
#include "compute/elementwise/vector_math.h"
#include "compute/products/sgemm.h"
#include "compute/windows/pooling.h"
#include "executor/interruptible.h"

namespace thalweg {
namespace {

// The numbers of a tensor in float32, as long as they live.
struct Floats32 {
  explicit Floats32(const Tensor& x) : tensor(widened(x)) {}
  operator const float*() const { return tensor.flat<float>(); }
  Tensor tensor;
};

// to = from B for row-major matrices, or to += that; B is [inner, columns].
void multiply(int64_t rows, int64_t columns, int64_t inner, const float* from, int64_t stride, const float* b,
              float* to, bool add) {
  products::sgemm({rows, columns, inner, {from, stride, 1}, {b, columns, 1}, to, columns, add});
}

// Rows of work that a thread takes at a time.
int64_t rows_at_once(int64_t units) { return std::max<int64_t>(1, 2048 / std::max<int64_t>(1, units)); }

void require_shape(const char* name, const Tensor& x, const Shape& shape) {
  require(x.shape() == shape, name, " must have shape ", shape, ", got ", x.shape());
}

// The outputs of an LSTM, in their order.
enum { kI, kCs, kF, kO, kCi, kCo, kH, kOutputs };

// The parameters of an LSTM, in inputs `first` (w, wci, wcf, wco, b) and attributes.
class Lstm {
 public:
  Lstm(const Construction& c, bool is_second)
      : forget_bias_(c.attr<float>("forget_bias", is_second ? 0.0f : 1.0f)),
        clip_(c.attr<float>("cell_clip", is_second ? 0.0f : 3.0f)),
        peepholes_(c.attr<bool>("use_peephole", false)),
        is_second_(is_second) {}

  // Checks the inputs of a cell for x of so many rows and columns.
  void check(Context& ctx, int state, int64_t rows, int64_t width) const {
    const Tensor &cs = ctx.input(state), &h = ctx.input(state + 1);
    require(cs.rank() == 2 && h.shape() == cs.shape(),
            "x, cs_prev and h_prev must be matrices, the last two of one shape; got ", cs.shape(), " and ", h.shape());
    require(cs.dim(0) == rows, "x has ", rows, " rows, cs_prev ", cs.dim(0));
    const int64_t units = cs.dim(1);
    require_shape("w", ctx.input(state + 2), Shape{width + units, 4 * units});
    if (peepholes_)
      for (int i : {0, 1, 2})
        require_shape(i == 0 ? "wci" : i == 1 ? "wcf" : "wco", ctx.input(state + 3 + i), Shape{units});
    require_shape("b", ctx.input(state + 6), Shape{4 * units});
  }

  // One step: `gates` are the products of its columns [x, h] and w; out[k] gets output k.
  void step(int64_t rows, int64_t units, const float* gates, const float* cs, const float* const* peepholes,
            const float* b, float* const* out) const {
    parallel_for(rows, rows_at_once(units), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* row[kOutputs];
        for (int k = 0; k < kOutputs; ++k) row[k] = out[k] + r * units;
        peepholes_ ? one<true>(units, gates + 4 * r * units, cs + r * units, peepholes, b, row)
                   : one<false>(units, gates + 4 * r * units, cs + r * units, peepholes, b, row);
      }
    });
  }

 private:
  template <bool kPeepholes>
  void one(int64_t units, const float* gates, const float* cs, const float* const* peepholes, const float* b,
           float* const* out) const {
    // BlockLSTM's columns are i, ci, f, o; those of its second version i, f, ci, o.
    const int64_t ci_at = (is_second_ ? 2 : 1) * units, f_at = (is_second_ ? 1 : 2) * units, o_at = 3 * units;
    const float *wci = peepholes[0], *wcf = peepholes[1], *wco = peepholes[2];
    float *i_to = out[kI], *cs_to = out[kCs], *f_to = out[kF], *o_to = out[kO];
    float *ci_to = out[kCi], *co_to = out[kCo], *h_to = out[kH];
    const float forget_bias = forget_bias_, most = clip_ > 0 ? clip_ : std::numeric_limits<float>::infinity();
#pragma GCC ivdep
    for (int64_t u = 0; u < units; ++u) {
      const float before = cs[u];
      float i = gates[u] + b[u], ci = gates[ci_at + u] + b[ci_at + u];
      float f = gates[f_at + u] + b[f_at + u] + forget_bias, o = gates[o_at + u] + b[o_at + u];
      if constexpr (kPeepholes) {
        i += before * wci[u];
        f += before * wcf[u];
      }
      i = vector_math::sigmoid(i);
      ci = vector_math::tanh(ci);
      f = vector_math::sigmoid(f);
      float now = i * ci + f * before;
      now = now > most ? most : now;
      now = now < -most ? -most : now;
      if constexpr (kPeepholes) o += now * wco[u];
      o = vector_math::sigmoid(o);
      const float co = vector_math::tanh(now);
      i_to[u] = i;
      cs_to[u] = now;
      f_to[u] = f;
      o_to[u] = o;
      ci_to[u] = ci;
      co_to[u] = co;
      h_to[u] = o * co;
    }
  }

  const float forget_bias_, clip_;
  const bool peepholes_, is_second_;
};

// Runs an LSTM over `steps` steps of x [time, rows, width]; the outputs of all times are zero beyond.
void run_lstm(Context& ctx, const Lstm& lstm, const Tensor& inputs, int state, int64_t times, int64_t steps,
              int64_t rows, int64_t width, const Shape& shape) {
  const int64_t units = ctx.input(state).dim(1), size = rows * units;
  Tensor outputs[kOutputs];
  const bool narrow = inputs.dtype() != DType::float32;
  float* out[kOutputs];
  for (int k = 0; k < kOutputs; ++k) {
    Tensor& given = ctx.allocate(k, shape);
    outputs[k] = narrow ? Tensor(DType::float32, shape) : given;
    out[k] = outputs[k].flat<float>();
    std::fill_n(out[k] + steps * size, (times - steps) * size, 0.0f);
  }
  if (size > 0 && steps > 0) {
    const Floats32 x(inputs), first_cs(ctx.input(state)), first_h(ctx.input(state + 1)), w(ctx.input(state + 2));
    const Floats32 wci(ctx.input(state + 3)), wcf(ctx.input(state + 4)), wco(ctx.input(state + 5));
    const Floats32 b(ctx.input(state + 6));
    const float* const peepholes[] = {wci, wcf, wco};
    // The part of x in the gates of all times at once; that of h, whose weights are packed once, step by step.
    Tensor gates(DType::float32, Shape{steps * rows, 4 * units});
    multiply(steps * rows, 4 * units, width, x, width, w, gates.flat<float>(), false);
    Tensor packed(DType::float32, Shape{products::packed_b_size(4 * units, units)});
    products::pack_b({w + width * 4 * units, 4 * units, 1}, 4 * units, units, packed.flat<float>());
    const float *cs = first_cs, *h = first_h;
    for (int64_t t = 0; t < steps; ++t) {
      float* row = gates.flat<float>() + t * rows * 4 * units;
      products::sgemm_packed(rows, 4 * units, units, h, units, packed.flat<float>(), row, 4 * units, true);
      lstm.step(rows, units, row, cs, peepholes, b, out);
      cs = out[kCs];
      h = out[kH];
      for (float*& to : out) to += size;
    }
  }
  if (narrow)
    for (int k = 0; k < kOutputs; ++k) {
      Tensor given = ctx.output(k);
      narrow_into(outputs[k], given);
    }
}

struct LstmBlockCell : Kernel {
  explicit LstmBlockCell(const Construction& c) : lstm(c, false) {}
  void compute(Context& ctx) override {
    const Tensor& x = ctx.input(0);
    require(x.rank() == 2, "x, cs_prev and h_prev must be matrices, got x of shape ", x.shape());
    lstm.check(ctx, 1, x.dim(0), x.dim(1));
    run_lstm(ctx, lstm, x, 1, 1, 1, x.dim(0), x.dim(1), ctx.input(1).shape());
  }
  Lstm lstm;
};

template <bool kSecond>
struct BlockLstm : Kernel {
  explicit BlockLstm(const Construction& c) : lstm(c, kSecond) {}
  void compute(Context& ctx) override {
    const Tensor &length = ctx.input(0), &x = ctx.input(1);
    require(length.rank() == 0, "seq_len_max must be a scalar, got shape ", length.shape());
    require(x.rank() == 3, "x must have 3 dimensions, got shape ", x.shape());
    const int64_t steps = to_int64(length);
    require(steps >= 0 && steps <= x.dim(0), "seq_len_max must be from 0 to ", x.dim(0), ", got ", steps);
    lstm.check(ctx, 2, x.dim(1), x.dim(2));
    const int64_t units = ctx.input(2).dim(1);
    const Interruptible interruptible(ctx, 4.0 * static_cast<double>(x.num_elements()) * static_cast<double>(units));
    run_lstm(ctx, lstm, x, 2, x.dim(0), steps, x.dim(1), x.dim(2), Shape{x.dim(0), x.dim(1), units});
  }
  Lstm lstm;
};

REGISTER(kernel("LSTMBlockCell").make<LstmBlockCell>());
REGISTER(kernel("BlockLSTM").make<BlockLstm<false>>());
REGISTER(kernel("BlockLSTMV2").make<BlockLstm<true>>());

// The candidate's input: [x, r * h].
void gru_cell(Context& ctx) {
  const Tensor &x = ctx.input(0), &h = ctx.input(1);
  require(x.rank() == 2 && h.rank() == 2 && x.dim(0) == h.dim(0), "x and h_prev must be matrices of as many rows, got ",
          x.shape(), " and ", h.shape());
  const int64_t rows = x.dim(0), width = x.dim(1), units = h.dim(1), inner = width + units;
  require_shape("w_ru", ctx.input(2), Shape{inner, 2 * units});
  require_shape("w_c", ctx.input(3), Shape{inner, units});
  require_shape("b_ru", ctx.input(4), Shape{2 * units});
  require_shape("b_c", ctx.input(5), Shape{units});
  float* out[4];
  for (int k = 0; k < 4; ++k) out[k] = ctx.allocate(k, h.shape()).flat<float>();
  if (rows * units == 0) return;
  const float *from = x.flat<float>(), *state = h.flat<float>();
  const float *w_ru = ctx.input(2).flat<float>(), *w_c = ctx.input(3).flat<float>();
  const float *b_ru = ctx.input(4).flat<float>(), *b_c = ctx.input(5).flat<float>();
  Tensor memory(DType::float32, Shape{rows, 3 * units});
  float *const gates = memory.flat<float>(), *const reset = gates + 2 * rows * units;
  multiply(rows, 2 * units, width, from, width, w_ru, gates, false);
  multiply(rows, 2 * units, units, state, units, w_ru + width * 2 * units, gates, true);
  parallel_for(rows, rows_at_once(units), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float *gate = gates + 2 * row * units, *before = state + row * units;
      float *r = out[0] + row * units, *u = out[1] + row * units, *to = reset + row * units;
#pragma GCC ivdep
      for (int64_t k = 0; k < units; ++k) {
        r[k] = vector_math::sigmoid(gate[k] + b_ru[k]);
        u[k] = vector_math::sigmoid(gate[units + k] + b_ru[units + k]);
        to[k] = r[k] * before[k];
      }
    }
  });
  multiply(rows, units, width, from, width, w_c, out[2], false);
  multiply(rows, units, units, reset, units, w_c + width * units, out[2], true);
  parallel_for(rows, rows_at_once(units), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float *u = out[1] + row * units, *before = state + row * units;
      float *c = out[2] + row * units, *to = out[3] + row * units;
#pragma GCC ivdep
      for (int64_t k = 0; k < units; ++k) {
        c[k] = vector_math::tanh(c[k] + b_c[k]);
        to[k] = u[k] * before[k] + (1.0f - u[k]) * c[k];
      }
    }
  });
}
REGISTER(kernel("GRUBlockCell").function<gru_cell>());

}  // namespace
}  // namespace thalweg
