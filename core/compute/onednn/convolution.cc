// Convolutions by oneDNN: the descriptors, the choice of layouts, and the reorders around a primitive.
#include "compute/onednn/convolution.h"

#include <limits>
#include <string_view>

#include "compute/onednn/engine.h"
#include "compute/onednn/filter_gradient.h"
#include "compute/weights/filter_cache.h"
#include "tensor/tensor.h"
#include "thread/parallel.h"

namespace thalweg {

using dnnl::memory;

struct BlockedInput {
  memory::desc layout;
  Tensor data;
};

namespace {

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
  int64_t all_out_channels;  // of the output and the filter in memory; the shape may have some of them

  DType dtype_of(Part part) const {
    return part == kFilter && pass == ConvolutionPass::filter_gradient ? DType::float32 : dtype;
  }
  PrimitiveKey key() const {
    PrimitiveKey key = {kConvolution,      static_cast<int64_t>(pass), static_cast<int64_t>(dtype),
                        threads,           all_out_channels,           bias,
                        shape.spatial,     shape.channels_first,       shape.batch,
                        shape.in_channels, shape.out_channels,         shape.groups};
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
  const memory::data_type type = onednn_type(p.dtype_of(part));
  if (any || part == kInput || p.all_out_channels == s.out_channels)
    return memory::desc(dims, type, any ? Tag::any : tag);
  // Some channels of NHWC, or some outputs of HWIO: the channels of an output, or the outputs of a filter, lie side by
  // side; all other dimensions follow from the last to the first, in steps of all channels.
  memory::dims strides(dims.size(), 1);
  int64_t step = p.all_out_channels;
  for (size_t i = dims.size() - 1; i > 1; --i) {
    if (part == kFilter && i == dims.size() - 1) strides[1] = step, step *= dims[1];
    strides[i] = step;
    step *= dims[i];
  }
  if (part == kOutput) strides[0] = step;
  return memory::desc(dims, type, strides);
}

dnnl::primitive_attr attributes_of(const std::vector<PostOp>& post_ops) {
  using dnnl::algorithm;
  dnnl::post_ops list;
  bool added = false;
  for (const PostOp& op : post_ops) switch (op.kind) {
      case PostOp::relu:
        if (added) {
          // The addend is overwritten, so the convolution cannot be repeated if there was NaN (convolve.cc): x times (0
          // if x < 0, 1 else) keeps NaN, at some cost; + 0 makes 0 of -0.
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

// Whether the results of an implementation, forward or towards the input, depend on the number of threads for which it
// was made, or it is slower than our own loops. oneDNN tells no more than their names. The first kind was found by
// trial (docs/decisions/0018-same-bits.md): convolutions by batches of products choose by the number of threads over
// which part of filter and channels a block sums (where the filter is one pixel, they do not), and the general product
// may cut the sums.
bool is_excluded(std::string_view name) {
  auto contains = [&](std::string_view part) { return name.find(part) != name.npos; };
  return contains("gemm") || (contains("brgconv") && !contains("brgconv_1x1")) || contains("sse41") ||
         name.starts_with("ref");
}

// The first implementation that is not excluded, or false.
template <typename Descriptor>
bool settle(Descriptor& descriptor) {
  while (is_excluded(descriptor.impl_info_str()))
    if (!descriptor.next_impl()) return false;
  return true;
}

// A primitive for the given layouts of input and output, or for those that oneDNN prefers (`any`).
CachedPrimitive make(const Problem& p, bool any) {
  const ConvolutionShape& s = p.shape;
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::engine& engine = onednn_engine();
  CachedPrimitive result;
  try {
    const memory::desc in = layout_of(p, kInput, any), out = layout_of(p, kOutput, any);
    const memory::desc filter = layout_of(p, kFilter, true);
    const memory::desc forward_filter(filter.get_dims(), onednn_type(p.dtype), Tag::any);
    const memory::desc bias = p.bias ? memory::desc({s.out_channels}, memory::data_type::f32, Tag::x) : memory::desc();
    const memory::dims stride = last(s.stride, s.spatial), before = last(s.before, s.spatial);
    memory::dims gaps = last(s.dilation, s.spatial), after;
    for (int64_t& gap : gaps) --gap;
    // oneDNN expects the padding implied by the output's size, which may be negative where the stride skips the end.
    for (int i = 3 - s.spatial; i < 3; ++i)
      after.push_back((s.out[i] - 1) * s.stride[i] + s.extent(i) - s.in[i] - s.before[i]);
    const bool forward = p.pass == ConvolutionPass::forward;
    const dnnl::primitive_attr attr = attributes_of(p.post_ops);
    dnnl::convolution_forward::primitive_desc hint(
        engine, forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, direct, in,
        forward_filter, bias, out, stride, gaps, before, after, attr);
    auto keep = [&](const auto& pd, dnnl::primitive primitive, std::vector<std::pair<int, memory::desc>> arguments) {
      result.primitive = std::move(primitive);
      result.arguments = std::move(arguments);
      result.scratchpad = pd.scratchpad_desc();
      result.available = true;
    };
    if (forward) {
      if (!settle(hint)) return result;
      keep(hint, dnnl::convolution_forward(hint),
           {{DNNL_ARG_SRC, hint.src_desc()}, {DNNL_ARG_WEIGHTS, hint.weights_desc()}, {DNNL_ARG_DST, hint.dst_desc()}});
      if (p.bias && result.available) result.arguments.push_back({DNNL_ARG_BIAS, hint.bias_desc()});
    } else if (p.pass == ConvolutionPass::input_gradient) {
      dnnl::convolution_backward_data::primitive_desc pd(engine, direct, in, filter, out, stride, gaps, before, after,
                                                         hint, attr);
      if (!settle(pd)) return result;
      keep(pd, dnnl::convolution_backward_data(pd),
           {{DNNL_ARG_DIFF_SRC, pd.diff_src_desc()},
            {DNNL_ARG_WEIGHTS, pd.weights_desc()},
            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    } else {
      dnnl::convolution_backward_weights::primitive_desc pd(engine, direct, in, filter, out, stride, gaps, before,
                                                            after, hint, attr);
      if (!settle(pd)) return result;
      keep(pd, dnnl::convolution_backward_weights(pd),
           {{DNNL_ARG_SRC, pd.src_desc()},
            {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()},
            {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
    }
  } catch (const dnnl::error& error) {
    // Our own loops compute what oneDNN rejects (sizes, types, post-ops).
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

// One of the three tensors, in the caller's layout and in that of the primitive.
class Operand {
 public:
  Operand(Part part, const PrimitiveKey& key, const memory::desc& given, const memory::desc& wanted, void* data)
      : given_(given), wanted_(wanted), key_(key), part_(part), data_(data) {
    if (given_ != wanted_) copy_ = Tensor(DType::uint8, Shape{static_cast<int64_t>(wanted_.get_size())});
  }
  // Whether the layouts differ.
  bool moved() const { return copy_.defined(); }
  void* data() const { return moved() ? copy_.raw() : data_; }
  const Tensor& copy() const { return copy_; }
  // Uses the tensor that an earlier step has reordered, or reorders it for the next steps.
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

// Whether a convolution is faster image by image. Without strides, or with little work, all at once is as good.
bool is_faster_by_image(const ConvolutionShape& s) {
  constexpr double kEnoughWork = 4 << 20;  // multiplications for an image
  const bool strided = s.stride != std::array<int64_t, 3>{1, 1, 1};
  return s.batch > 1 && strided && s.filter_area() > 1 && !s.channels_first && s.groups == 1 &&
         s.work() >= s.batch * kEnoughWork;
}

// Runs a primitive on operands in the layouts of the caller, brought into its own where they differ; on several
// images of which the problem has one, if the layouts are the same.
bool run(const Problem& problem, const ConvolutionData& data, int64_t images = 1,
         const BlockedInput* blocked = nullptr) {
  const ConvolutionPass pass = problem.pass;
  const bool forward = pass == ConvolutionPass::forward;
  const PrimitiveKey key = problem.key();
  auto primitive = PrimitiveCache::global().get(key, [&] { return choose(problem); });
  if (!primitive->available) return false;
  auto wanted = [&](Part part) { return primitive->arguments[part].second; };
  auto operand = [&](Part part, void* pointer) {
    return Operand(part, key, layout_of(problem, part, false), wanted(part), pointer);
  };
  const Operand input = blocked && blocked->layout == wanted(kInput)
                            ? Operand(kInput, key, blocked->layout, blocked->layout, blocked->data.raw())
                            : operand(kInput, data.input);
  Operand filter = operand(kFilter, data.filter);
  const Operand output = operand(kOutput, data.output);
  if (images > 1 && (input.moved() || output.moved())) return false;
  bool adds = false;
  for (const PostOp& op : problem.post_ops) adds |= op.kind == PostOp::sum;
  if (pass != ConvolutionPass::input_gradient) input.bring();
  if (data.cache)
    filter.bring_cached(data.cache->layout, *data.cache_source);
  else if (pass != ConvolutionPass::filter_gradient)
    filter.bring();
  if (!forward || adds) output.bring();
  const int64_t width = size_of(problem.dtype);
  const int64_t input_bytes = problem.shape.input_size() * width, output_bytes = problem.shape.output_size() * width;
  for (int64_t i = 0; i < images; ++i) {
    const void* in = static_cast<const char*>(input.data()) + i * input_bytes;
    const void* out = static_cast<const char*>(output.data()) + i * output_bytes;
    if (data.bias)
      primitive->run({in, filter.data(), out, data.bias});
    else
      primitive->run({in, filter.data(), out});
  }
  (forward ? output : pass == ConvolutionPass::input_gradient ? input : filter).fetch();
  return true;
}

}  // namespace

bool onednn_convolution(ConvolutionPass pass, DType dtype, const ConvolutionShape& shape,
                        const std::vector<PostOp>& post_ops, const ConvolutionData& data) {
  if (onednn_type(dtype) == memory::data_type::undef) return false;
  onednn_engine();
  if (pass == ConvolutionPass::filter_gradient) return onednn_filter_gradient(dtype, shape, data);
  const OnednnThreads threads(intra_op_threads());
  if (is_faster_by_image(shape)) {
    ConvolutionShape image = shape;
    image.batch = 1;
    if (run({pass, dtype, image, post_ops, data.bias != nullptr, threads.count(), shape.out_channels}, data,
            shape.batch))
      return true;
  }
  return run({pass, dtype, shape, post_ops, data.bias != nullptr, threads.count(), shape.out_channels}, data);
}

namespace {

Problem problem_of(const FilterGradientPiece& p) {
  static const std::vector<PostOp> none;
  return {ConvolutionPass::filter_gradient, p.dtype, p.shape, none, false, 1, p.all_out_channels};
}

}  // namespace

std::shared_ptr<const BlockedInput> onednn_blocked_input(const FilterGradientPiece& piece) {
  const Problem problem = problem_of(piece);
  const PrimitiveKey key = problem.key();
  std::shared_ptr<const CachedPrimitive> primitive;
  {
    const OnednnThreads one(problem.threads);
    primitive = PrimitiveCache::global().get(key, [&] { return choose(problem); });
  }
  if (!primitive->available) return nullptr;
  const OnednnThreads threads(intra_op_threads());
  PrimitiveKey reorder_key = key;
  reorder_key.push_back(threads.count());
  const memory::desc& wanted = primitive->arguments[kInput].second;
  const Operand input(kInput, reorder_key, layout_of(problem, kInput, false), wanted, piece.data.input);
  if (!input.moved()) return nullptr;
  input.bring();
  return std::make_shared<const BlockedInput>(BlockedInput{wanted, input.copy()});
}

bool onednn_filter_gradient_piece(const FilterGradientPiece& piece, const BlockedInput* input) {
  const OnednnThreads threads(1);
  return run(problem_of(piece), piece.data, 1, input);
}

}  // namespace thalweg
