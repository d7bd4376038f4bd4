// Sets along the last dimension of dense and sparse tensors: union, intersection, differences and sizes.
#include <string_view>

#include "compute/sparse/sparse_input.h"
#include "executor/interruptible.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Members =
    Types<DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::uint16, DType::string>;

// Elements as they are compared: strings where they lie.
template <typename T>
using Member = std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T>;

// A tensor as sets: one per index of all dimensions but the last, in row-major order. Those without members are left
// out, so that a sparse shape may be as large as it wants.
class Sets {
 public:
  // Reads input `first` (dense), or from `first` on indices, values and shape of a sparse one.
  static Sets dense(const Tensor& x) {
    require(x.rank() >= 2, "sets need at least a matrix, got shape ", x.shape());
    Sets sets;
    sets.values_ = x;
    sets.outer_.assign(x.shape().begin(), x.shape().end() - 1);
    const int64_t each = x.dim(x.rank() - 1), count = each == 0 ? 0 : x.num_elements() / each;
    for (int64_t i = 0; i < count; ++i) sets.spans_.push_back({i, i * each, (i + 1) * each});
    return sets;
  }
  static Sets sparse(Context& ctx, int first, bool validate, std::string_view what) {
    const SparseInput x(ctx, first, what);
    if (x.rank < 2) fail(Code::invalid_argument, what, ": sets need at least rank 2, got shape ", listed(x.sizes));
    Sets sets;
    sets.values_ = x.values;
    sets.outer_.assign(x.sizes.begin(), x.sizes.end() - 1);
    std::vector<int64_t> numbers(x.count);
    int64_t last = -1;
    for (int64_t i = 0; i < x.count; ++i) {
      int64_t set = 0;
      for (int64_t d = 0; d + 1 < x.rank; ++d) set = set * x.sizes[d] + x.row(i)[d];
      const int64_t position = set * x.sizes[x.rank - 1] + x.row(i)[x.rank - 1];
      if (validate && position <= last)
        fail(Code::invalid_argument, what, ": indices are repeated or not in row-major order");
      last = position;
      numbers[i] = set;
    }
    sets.order_ = sorting_order(numbers);
    for (int64_t i = 0; i < x.count; ++i) {
      const int64_t set = numbers[sets.order_.empty() ? i : sets.order_[i]];
      if (sets.spans_.empty() || sets.spans_.back().set != set) sets.spans_.push_back({set, i, i});
      ++sets.spans_.back().end;
    }
    return sets;
  }

  const std::vector<int64_t>& outer() const { return outer_; }
  size_t count() const { return spans_.size(); }
  // The number of the i-th set that has members; beyond the last one, a number above all others.
  int64_t number(size_t i) const { return i < spans_.size() ? spans_[i].set : std::numeric_limits<int64_t>::max(); }
  // Its distinct members, sorted.
  template <typename T>
  void members(size_t i, std::vector<Member<T>>& out) const {
    const T* values = values_.flat<T>();
    out.clear();
    for (int64_t k = spans_[i].begin; k < spans_[i].end; ++k) out.push_back(values[order_.empty() ? k : order_[k]]);
    if (!std::is_sorted(out.begin(), out.end())) std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
  }

 private:
  struct Span {
    int64_t set, begin, end;
  };
  Tensor values_;
  std::vector<int64_t> outer_;
  std::vector<uint32_t> order_;  // of the values; empty if they lie set after set
  std::vector<Span> spans_;
};

// Whether the step has ended is asked now and then.
constexpr size_t kSetsAtOnce = 4096;
void look_up(Interruption* interruption, size_t done) {
  if (interruption != nullptr && done % kSetsAtOnce == 0 && interruption->is_due())
    fail(Code::cancelled, "the step has ended");
}

enum class Operation : uint8_t { left, right, both, either };

template <typename T>
void operate(Operation operation, const std::vector<T>& a, const std::vector<T>& b, std::vector<T>& out) {
  const auto to = std::back_inserter(out);
  switch (operation) {
    case Operation::left:
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(), to);
      return;
    case Operation::right:
      std::set_difference(b.begin(), b.end(), a.begin(), a.end(), to);
      return;
    case Operation::both:
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), to);
      return;
    case Operation::either:
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), to);
  }
}

// The sets that `operation` makes of each pair of sets.
template <typename T>
void combine(Context& ctx, Operation operation, const Sets& a, const Sets& b) {
  Interruption* const interruption = Interruption::current();
  std::vector<Member<T>> left, right, values;
  std::vector<std::pair<int64_t, size_t>> ends;  // sets with a result, and where it ends
  for (size_t i = 0, j = 0; i < a.count() || j < b.count();) {
    look_up(interruption, i + j);
    const int64_t set = std::min(a.number(i), b.number(j));
    left.clear();
    right.clear();
    if (a.number(i) == set) a.members<T>(i++, left);
    if (b.number(j) == set) b.members<T>(j++, right);
    const size_t before = values.size();
    operate(operation, left, right, values);
    if (values.size() > before) ends.emplace_back(set, values.size());
  }
  const std::vector<int64_t>& outer = a.outer();
  const int64_t count = static_cast<int64_t>(values.size()), rank = static_cast<int64_t>(outer.size()) + 1;
  int64_t* index = ctx.allocate(0, Shape{count, rank}).flat<int64_t>();
  T* to = ctx.allocate(1, Shape{count}).template flat<T>();
  int64_t largest = 0;
  size_t begin = 0;
  for (const auto& [set, end] : ends) {
    for (size_t k = begin; k < end; ++k, index += rank) {
      int64_t rest = set;
      for (int64_t d = rank - 1; d-- > 0; rest /= outer[d]) index[d] = rest % outer[d];
      index[rank - 1] = static_cast<int64_t>(k - begin);
      to[k] = T(values[k]);
    }
    largest = std::max(largest, static_cast<int64_t>(end - begin));
    begin = end;
  }
  std::vector<int64_t> shape = outer;
  shape.push_back(largest);
  ctx.set_output(2, Tensor::vector<int64_t>(shape));
}

// The first set is dense or sparse, and so is the second one.
template <bool kFirstDense, bool kSecondDense>
struct SetOperation : Kernel {
  explicit SetOperation(const Construction& c)
      : name(c.attr<std::string>("set_operation")), validate(c.attr<bool>("validate_indices", true)) {
    for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  void compute(Context& ctx) override {
    const bool known = name == "a-b" || name == "b-a" || name == "intersection" || name == "union";
    require(known, "set_operation '", name, "' is not one of a-b, b-a, intersection, union");
    const Operation operation = name == "a-b"            ? Operation::left
                                : name == "b-a"          ? Operation::right
                                : name == "intersection" ? Operation::both
                                                         : Operation::either;
    const Sets a = kFirstDense ? Sets::dense(ctx.input(0)) : Sets::sparse(ctx, 0, validate, "set1");
    constexpr int second = kFirstDense ? 1 : 3;
    const Sets b = kSecondDense ? Sets::dense(ctx.input(second)) : Sets::sparse(ctx, second, validate, "set2");
    if (a.outer() != b.outer())
      fail(Code::invalid_argument, "the outer dimensions of set1 and set2 must agree, got ", listed(a.outer()), " and ",
           listed(b.outer()));
    dispatch(ctx.output_dtype(1), Members{}, [&]<typename T>() { combine<T>(ctx, operation, a, b); });
  }
  std::string name;
  bool validate;
};
REGISTER(kernel("DenseToDenseSetOperation").types("T", Members{}).make<SetOperation<true, true>>());
REGISTER(kernel("DenseToSparseSetOperation").types("T", Members{}).make<SetOperation<true, false>>());
REGISTER(kernel("SparseToSparseSetOperation").types("T", Members{}).make<SetOperation<false, false>>());

struct SetSize : Kernel {
  explicit SetSize(const Construction& c) : validate(c.attr<bool>("validate_indices", true)) {}
  void compute(Context& ctx) override {
    const Sets sets = Sets::sparse(ctx, 0, validate, "set");
    Tensor& out = ctx.allocate(0, Shape(sets.outer()));
    int32_t* sizes = out.flat<int32_t>();
    std::fill_n(sizes, out.num_elements(), 0);
    Interruption* const interruption = Interruption::current();
    dispatch(ctx.input(1).dtype(), Members{}, [&]<typename T>() {
      std::vector<Member<T>> members;
      for (size_t i = 0; i < sets.count(); ++i) {
        look_up(interruption, i);
        sets.members<T>(i, members);
        sizes[sets.number(i)] = static_cast<int32_t>(members.size());
      }
    });
  }
  bool validate;
};
REGISTER(kernel("SetSize").types("T", Members{}).make<SetSize>());

}  // namespace
}  // namespace thalweg
