// Cutting strings into tokens and joining them along dimensions: StringSplit, StringSplitV2, ReduceJoin.
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Tokens = std::vector<std::string_view>;

constexpr std::string_view kSpace = " \t\n\v\f\r";

// Every byte of `delimiters` separates; none: every byte is a token.
Tokens split_at_any(std::string_view text, std::string_view delimiters, bool skip_empty) {
  Tokens out;
  if (text.empty()) return out;
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) out.push_back(text.substr(i, 1));
    return out;
  }
  for (size_t begin = 0;;) {
    size_t end = text.find_first_of(delimiters, begin);
    std::string_view token = text.substr(begin, end - begin);
    if (!token.empty() || !skip_empty) out.push_back(token);
    if (end == std::string_view::npos) return out;
    begin = end + 1;
  }
}

// As Python's str.split: a separator of several bytes, or runs of white space if it is empty.
Tokens split(std::string_view text, std::string_view separator, int64_t most) {
  Tokens out;
  if (separator.empty()) {
    size_t begin = text.find_first_not_of(kSpace);
    while (begin != std::string_view::npos) {
      if (most >= 0 && static_cast<int64_t>(out.size()) == most) {
        out.push_back(text.substr(begin));
        break;
      }
      size_t end = text.find_first_of(kSpace, begin);
      out.push_back(text.substr(begin, end - begin));
      begin = text.find_first_not_of(kSpace, end);
    }
    return out;
  }
  size_t begin = 0;
  while (most < 0 || static_cast<int64_t>(out.size()) < most) {
    size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    out.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  out.push_back(text.substr(begin));
  return out;
}

// The tokens of each row as a sparse matrix.
template <typename Split>
void write_tokens(Context& ctx, const Split& split_row) {
  const Tensor& in = ctx.input(0);
  require(in.rank() == 1, "input must be a vector, got shape: ", in.shape());
  require(ctx.input(1).rank() == 0, "the delimiter must be a scalar, got shape: ", ctx.input(1).shape());
  const std::string& delimiter = ctx.input(1).strings()[0];
  std::vector<Tokens> rows;
  int64_t total = 0, widest = 0;
  for (int64_t i = 0; i < in.num_elements(); ++i) {
    rows.push_back(split_row(in.strings()[i], delimiter));
    total += static_cast<int64_t>(rows.back().size());
    widest = std::max(widest, static_cast<int64_t>(rows.back().size()));
  }
  int64_t* indices = ctx.allocate(0, Shape{total, 2}).flat<int64_t>();
  std::string* values = ctx.allocate(1, Shape{total}).strings();
  int64_t* shape = ctx.allocate(2, Shape{2}).flat<int64_t>();
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t k = 0; k < rows[r].size(); ++k) {
      *indices++ = static_cast<int64_t>(r);
      *indices++ = static_cast<int64_t>(k);
      *values++ = rows[r][k];
    }
  }
  shape[0] = in.num_elements();
  shape[1] = widest;
}

struct StringSplit : Kernel {
  explicit StringSplit(const Construction& c) : skip_empty(c.attr<bool>("skip_empty", true)) {}
  void compute(Context& ctx) override {
    write_tokens(ctx, [this](std::string_view text, std::string_view d) { return split_at_any(text, d, skip_empty); });
  }
  bool skip_empty;
};

struct StringSplitV2 : Kernel {
  explicit StringSplitV2(const Construction& c) : most(c.attr<int64_t>("maxsplit", -1)) {}
  void compute(Context& ctx) override {
    write_tokens(ctx, [this](std::string_view text, std::string_view d) { return split(text, d, most); });
  }
  int64_t most;
};

struct ReduceJoin : Kernel {
  explicit ReduceJoin(const Construction& c)
      : keep(c.attr<bool>("keep_dims", false)), separator(c.attr<std::string>("separator", "")) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Tensor& axes = ctx.input(1);
    require(axes.rank() <= 1, "reduction_indices must be a scalar or a vector, got shape ", axes.shape());
    int rank = in.rank();
    // Along the axes in the order given: the first one varies fastest.
    std::vector<int> order;
    std::vector<bool> reduced(rank, false);
    for (int64_t axis : to_int64s(axes)) {
      if (axis < -rank || axis >= rank)
        fail(Code::out_of_range, "Invalid reduction dimension ", axis, " for input with ", rank, " dimension(s)");
      int a = static_cast<int>(axis < 0 ? axis + rank : axis);
      require(!reduced[a], "Duplicate reduction dimension ", axis);
      reduced[a] = true;
      order.push_back(a);
    }
    std::vector<int64_t> strides(rank), shape;
    std::vector<int> kept;
    int64_t stride = 1, joined = 1;
    for (int d = rank - 1; d >= 0; --d) {
      strides[d] = stride;
      stride *= in.dim(d);
    }
    for (int d = 0; d < rank; ++d) {
      if (!reduced[d]) {
        kept.push_back(d);
        shape.push_back(in.dim(d));
      } else if (keep) {
        shape.push_back(1);
      }
      if (reduced[d]) joined *= in.dim(d);
    }
    Tensor& out = ctx.allocate(0, Shape(shape));
    for (int64_t o = 0; o < out.num_elements(); ++o) {
      int64_t base = 0, left = o;
      for (size_t k = kept.size(); k-- > 0; left /= in.dim(kept[k])) base += left % in.dim(kept[k]) * strides[kept[k]];
      std::string& to = out.strings()[o];
      for (int64_t j = 0; j < joined; ++j) {
        int64_t at = base, rest = j;
        for (int d : order) {
          at += rest % in.dim(d) * strides[d];
          rest /= in.dim(d);
        }
        if (j > 0) to += separator;
        to += in.strings()[at];
      }
    }
  }
  bool keep;
  std::string separator;
};

REGISTER(kernel("StringSplit").make<StringSplit>());
REGISTER(kernel("StringSplitV2").make<StringSplitV2>());
REGISTER(kernel("ReduceJoin").make<ReduceJoin>());

}  // namespace
}  // namespace thalweg
