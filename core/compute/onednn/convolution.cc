// Convolutions by oneDNN: the descriptors, the choice of layouts, and the reorders around a primitive.
#include "compute/onednn/convolution.h"

#include <limits>
#include <string_view>

#include "compute/onednn/engine.h"
#include "compute/weights/filter_cache.h"
#include "tensor/tensor.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr int64_t kConvolution = 2;  // The first part of the key of each kind of primitive.

// The three tensors of a convolution, in the order of ConvolutionData.
enum Part { kInput, kFilter, kOutput, kParts };

struct Problem {
  ConvolutionPass pass;
  DType dtype;
  const ConvolutionShape& shape;
  const std::vector<PostOp>& post_ops;
  bool bias;
  int threads;

  PrimitiveKey key() const {
    PrimitiveKey key = {kConvolution,
                        static_cast<int64_t>(pass),
                        static_cast<int64_t>(dtype),
                        threads,
                        bias,
                        shape.spatial,
                        shape.channels_first,
                        shape.batch,
                        shape.in_channels,
                        shape.out_channels,
                        shape.groups};
    for (const auto* sizes : {&shape.in, &shape.filter, &shape.out, &shape.stride, &shape.dilation, &shape.before})
      key.insert(key.end(), sizes->begin(), sizes->end());
    for (const PostOp& op : post_ops) {
      key.push_back(op.kind);
      key.push_back(__builtin_bit_cast(int32_t, op.alpha));
    }
    return key;
  }
};

memory::dims last(const std::array<int64_t, 3>& values, int count) { return {values.end() - count, values.end()}; }

// The layouts in which the data is given, or (`any`) those that oneDNN may choose.
memory::desc layout_of(const Problem& p, Part part, bool any) {
  const ConvolutionShape& s = p.shape;
  const bool flat = s.spatial == 2;
  memory::dims dims;
  Tag tag;
  if (part == kFilter) {
    if (s.groups > 1)
      dims = {s.groups, s.group_outputs(), s.group_inputs()};
    else
      dims = {s.out_channels, s.in_channels};
    tag = s.groups > 1 ? (flat ? Tag::hwigo : Tag::dhwigo) : (flat ? Tag::hwio : Tag::dhwio);
  } else {
    dims = {s.batch, part == kInput ? s.in_channels : s.out_channels};
    tag = s.channels_first ? (flat ? Tag::nchw : Tag::ncdhw) : (flat ? Tag::nhwc : Tag::ndhwc);
  }
  const memory::dims sizes = last(part == kFilter ? s.filter : part == kInput ? s.in : s.out, s.spatial);
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  return memory::desc(dims, onednn_type(p.dtype), any ? Tag::any : tag);
}

dnnl::primitive_attr attributes_of(const std::vector<PostOp>& post_ops) {
  using dnnl::algorithm;
  dnnl::post_ops list;
  bool added = false;
  for (const PostOp& op : post_ops) switch (op.kind) {
      case PostOp::relu:
        if (added) {
          // What was added to is gone, the convolution cannot be done again if there was NaN (convolve.cc): x times
          // (0 if x < 0, 1 else) keeps it, at some cost; + 0 makes 0 of -0.
          list.append_eltwise(algorithm::eltwise_hardswish, std::numeric_limits<float>::max(), 0);
          list.append_eltwise(algorithm::eltwise_linear, 1, 0);
        } else {
          list.append_eltwise(algorithm::eltwise_relu, 0, 0);
        }
        break;
      case PostOp::relu6:
        list.append_eltwise(algorithm::eltwise_clip, 0, 6);
        break;
      case PostOp::elu:
        list.append_eltwise(algorithm::eltwise_elu, 1, 0);
        break;
      case PostOp::leaky_relu:
        list.append_eltwise(algorithm::eltwise_relu, op.alpha, 0);
        break;
      case PostOp::tanh:
        list.append_eltwise(algorithm::eltwise_tanh, 0, 0);
        break;
      case PostOp::sigmoid:
        list.append_eltwise(algorithm::eltwise_logistic, 0, 0);
        break;
      case PostOp::sum:
        list.append_sum(1);
        added = true;
        break;
    }
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(list);
  return attr;
}

// A primitive for the given layouts of input and output, or for whichever oneDNN prefers (`any`).
CachedPrimitive make(const Problem& p, bool any) {
  const ConvolutionShape& s = p.shape;
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::engine& engine = onednn_engine();
  CachedPrimitive result;
  try {
    const memory::desc in = layout_of(p, kInput, any), out = layout_of(p, kOutput, any);
    const memory::desc filter = layout_of(p, kFilter, true);
    const memory::desc bias = p.bias ? memory::desc({s.out_channels}, memory::data_type::f32, Tag::x) : memory::desc();
    const memory::dims stride = last(s.stride, s.spatial), before = last(s.before, s.spatial);
    memory::dims gaps = last(s.dilation, s.spatial), after;
    for (int64_t& gap : gaps) --gap;
    // oneDNN wants the padding that the output's size implies, which may be negative where the stride skips the end.
    for (int i = 3 - s.spatial; i < 3; ++i)
      after.push_back((s.out[i] - 1) * s.stride[i] + s.extent(i) - s.in[i] - s.before[i]);
    const bool forward = p.pass == ConvolutionPass::forward;
    const dnnl::primitive_attr attr = attributes_of(p.post_ops);
    dnnl::convolution_forward::primitive_desc hint(
        engine, forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, direct, in, filter,
        bias, out, stride, gaps, before, after, attr);
    auto keep = [&](const auto& pd, dnnl::primitive primitive, std::vector<std::pair<int, memory::desc>> arguments) {
      const std::string_view name = pd.impl_info_str();
      if (name.starts_with("ref") || (name.find("gemm") != name.npos && !p.post_ops.empty())) return;
      result.primitive = std::move(primitive);
      result.arguments = std::move(arguments);
      result.scratchpad = pd.scratchpad_desc();
      result.available = true;
    };
    if (forward) {
      keep(hint, dnnl::convolution_forward(hint),
           {{DNNL_ARG_SRC, hint.src_desc()}, {DNNL_ARG_WEIGHTS, hint.weights_desc()}, {DNNL_ARG_DST, hint.dst_desc()}});
      if (p.bias && result.available) result.arguments.push_back({DNNL_ARG_BIAS, hint.bias_desc()});
    } else if (p.pass == ConvolutionPass::input_gradient) {
      dnnl::convolution_backward_data::primitive_desc pd(engine, direct, in, filter, out, stride, gaps, before, after,
                                                         hint, attr);
      keep(pd, dnnl::convolution_backward_data(pd),
           {{DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    } else {
      dnnl::convolution_backward_weights::primitive_desc pd(engine, direct, in, filter, out, stride, gaps, before,
                                                            after, hint, attr);
      keep(pd, dnnl::convolution_backward_weights(pd),
           {{DNNL_ARG_SRC, pd.src_desc()},
            {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    }
  } catch (const dnnl::error& error) {
    // Whatever oneDNN refuses (sizes, types, post-ops), our own loops do.
    if (error.status == dnnl_out_of_memory) fail(Code::resource_exhausted, "oneDNN has no memory for a convolution");
  }
  return result;
}

CachedPrimitive make_reorder(const memory::desc& from, const memory::desc& to) {
  CachedPrimitive result;
  try {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::reorder::primitive_desc pd(onednn_engine(), from, onednn_engine(), to, attr);
    result.primitive = dnnl::reorder(pd);
    result.arguments = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    result.scratchpad = pd.scratchpad_desc();
    result.available = true;
  } catch (const dnnl::error& error) {
    fail(Code::internal, "oneDNN cannot change a layout: ", error.what());
  }
  return result;
}

// One of the three tensors: where the caller has it, and where the primitive wants it.
class Operand {
 public:
  Operand(const Problem& p, Part part, const PrimitiveKey& key, const memory::desc& wanted, void* data)
      : given_(layout_of(p, part, false)), wanted_(wanted), key_(key), part_(part), data_(data) {
    if (given_ != wanted_) copy_ = Tensor(DType::uint8, Shape{static_cast<int64_t>(wanted_.get_size())});
  }
  void* data() const { return moved() ? copy_.raw() : data_; }
  // Takes the tensor that was put into the wanted layout by an earlier step, or puts it there for the next ones.
  void bring_cached(WeightCache<Tensor>& cache, const Tensor& source) {
    if (!moved()) return;
    copy_ = *cache.get({&source}, key_, [&] {
      bring();
      return copy_;
    });
  }
  void bring() const {
    if (moved()) reorder(0, given_, wanted_).run({data_, copy_.raw()});
  }
  void fetch() const {
    if (moved()) reorder(1, wanted_, given_).run({copy_.raw(), data_});
  }

 private:
  bool moved() const { return copy_.defined(); }
  const CachedPrimitive& reorder(int64_t direction, const memory::desc& from, const memory::desc& to) const {
    PrimitiveKey key = key_;
    key.push_back(-1 - part_);
    key.push_back(direction);
    reorder_ = PrimitiveCache::global().get(key, [&] { return make_reorder(from, to); });
    return *reorder_;
  }

  memory::desc given_, wanted_;
  const PrimitiveKey& key_;
  Part part_;
  void* data_;
  Tensor copy_;
  mutable std::shared_ptr<const CachedPrimitive> reorder_;
};

// Whether input and output are better put into blocked layouts, reorders included (measured with the convolutions of
// AlexNet, VGG, GoogLeNet, ResNet-50 and MobileNet on AVX2). Forward and towards the input NHWC is as good. The
// gradient of the filter is up to five times as fast in blocked layouts, except where there is but one channel, or
// where a filter of one pixel skips most of the input. NCHW has few implementations.
bool prefers_blocked(const Problem& p) {
  const ConvolutionShape& s = p.shape;
  if (s.channels_first) return true;
  if (p.pass != ConvolutionPass::filter_gradient || s.groups > 1 || s.in_channels == 1) return false;
  return s.filter_area() > 1 || s.in_area() == s.out_area();
}

CachedPrimitive choose(const Problem& p) {
  const bool any = prefers_blocked(p);
  CachedPrimitive first = make(p, any);
  return first.available ? first : make(p, !any);
}

}  // namespace

bool onednn_convolution(ConvolutionPass pass, DType dtype, const ConvolutionShape& shape,
                        const std::vector<PostOp>& post_ops, const ConvolutionData& data) {
  if (onednn_type(dtype) == memory::data_type::undef) return false;
  onednn_engine();
  const bool forward = pass == ConvolutionPass::forward;
  const OnednnThreads threads(forward ? intra_op_threads() : undivided_intra_op_threads());
  const Problem problem{pass, dtype, shape, post_ops, data.bias != nullptr, threads.count()};
  const PrimitiveKey key = problem.key();
  auto primitive = PrimitiveCache::global().get(key, [&] { return choose(problem); });
  if (!primitive->available) return false;
  auto operand = [&](Part part, void* pointer) {
    return Operand(problem, part, key, primitive->arguments[part].second, pointer);
  };
  const Operand input = operand(kInput, data.input);
  Operand filter = operand(kFilter, data.filter);
  const Operand output = operand(kOutput, data.output);
  bool adds = false;
  for (const PostOp& op : post_ops) adds |= op.kind == PostOp::sum;
  if (pass != ConvolutionPass::input_gradient) input.bring();
  if (data.cache)
    filter.bring_cached(data.cache->layout, *data.cache_source);
  else if (pass != ConvolutionPass::filter_gradient)
    filter.bring();
  if (!forward || adds) output.bring();
  if (data.bias)
    primitive->run({input.data(), filter.data(), output.data(), data.bias});
  else
    primitive->run({input.data(), filter.data(), output.data()});
  (forward ? output : pass == ConvolutionPass::input_gradient ? input : filter).fetch();
  return true;
}

}  // namespace thalweg
