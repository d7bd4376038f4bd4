// How the axes of a reduction divide a tensor into kept and reduced runs, and how the work is cut.
#include "compute/reduction/reduction.h"

namespace thalweg {

ReductionLayout::ReductionLayout(const Shape& input, const Tensor& axes, bool keep_dims) {
  const int rank = input.rank();
  std::vector<bool> is_reduced(rank, false);
  for (int64_t axis : to_int64s(axes)) {
    require(axis >= -rank && axis < rank, "Invalid reduction dimension (", axis, " for input with ", rank,
            " dimension(s)): expected a value in [", -rank, ", ", rank, ")");
    int d = static_cast<int>(axis < 0 ? axis + rank : axis);
    require(!is_reduced[d], "Invalid reduction arguments: Axes contains duplicate dimension: ", d);
    is_reduced[d] = true;
  }
  std::vector<int64_t> dims;
  struct Run {
    int64_t size;
    bool reduced;
  };
  std::vector<Run> runs;
  trivial = true;
  for (int d = 0; d < rank; ++d) {
    int64_t size = input[d];
    if (!is_reduced[d])
      dims.push_back(size);
    else if (keep_dims)
      dims.push_back(1);
    if (is_reduced[d]) {
      count *= size;
      trivial = trivial && size == 1;
    }
    if (size == 1) continue;
    if (!runs.empty() && runs.back().reduced == is_reduced[d])
      runs.back().size *= size;
    else
      runs.push_back({size, is_reduced[d]});
  }
  shape = Shape(dims);
  if (runs.empty()) return;
  inner = runs.back().size;
  inner_reduced = runs.back().reduced;
  int64_t stride = inner;
  for (size_t i = runs.size() - 1; i-- > 0;) {
    (runs[i].reduced ? reduced : kept).insert((runs[i].reduced ? reduced : kept).begin(), {runs[i].size, stride});
    (runs[i].reduced ? num_reduced : num_kept) *= runs[i].size;
    stride *= runs[i].size;
  }
}

namespace {

constexpr size_t kWidestTotal = sizeof(complex128);

int64_t offset_of(const std::vector<ReductionLayout::Dim>& dims, int64_t index) {
  if (dims.size() == 1) return index * dims[0].stride;
  int64_t offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride;
    index /= dims[d].size;
  }
  return offset;
}

// Totals of any type.
template <int64_t n>
struct alignas(kWidestTotal) Totals {
  char bytes[n * kWidestTotal];
};

// One reduction: a tensor, the layout of kept and reduced dimensions, and the loops.
class Reducing {
 public:
  Reducing(const void* in, const ReductionLayout& layout, const ReductionLoops& loops, int variant, void* out)
      : in_(static_cast<const char*>(in)),
        out_(static_cast<char*>(out)),
        layout_(layout),
        loops_(loops),
        variant_(variant) {}

  // The innermost run is reduced: each result combines whole runs.
  void rows() const {
    const int64_t runs = layout_.num_reduced, length = layout_.inner, per = runs * length;
    if (layout_.num_kept >= 8 || per <= kReductionChunk) {
      parallel_for(layout_.num_kept, std::max<int64_t>(1, kReductionChunk / 2 / std::max<int64_t>(1, per)),
                   [&](int64_t begin, int64_t end) {
                     if (layout_.reduced.empty())  // The rows follow each other.
                       return loops_.reduce_rows(at(begin * length), end - begin, length, variant_,
                                                 out_ + begin * static_cast<int64_t>(loops_.width));
                     Totals<1> total;
                     for (int64_t k = begin; k < end; ++k) {
                       add_runs(k, 0, runs, 0, length, &total);
                       finish(&total, 1, per, k);
                     }
                   });
      return;
    }
    // Few results: several parts of each, combined in order.
    const bool by_run = runs > 1;
    const int64_t splittable = by_run ? runs : length;
    const int64_t parts = std::min(splittable, std::clamp<int64_t>(per / kReductionChunk, 1, 256));
    std::vector<Totals<1>> totals(layout_.num_kept * parts);
    parallel_for(layout_.num_kept * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = i / parts, c = i % parts;
        const int64_t from = splittable * c / parts, to = splittable * (c + 1) / parts;
        by_run ? add_runs(k, from, to, 0, length, &totals[i]) : add_runs(k, 0, 1, from, to, &totals[i]);
      }
    });
    for (int64_t k = 0; k < layout_.num_kept; ++k) {
      Totals<1> total;
      loops_.set_identity(&total, 1);
      for (int64_t c = 0; c < parts; ++c) loops_.merge(&total, &totals[k * parts + c], 1);
      finish(&total, 1, per, k);
    }
  }

  // The innermost run is kept: rows are combined element by element.
  void columns() const {
    const int64_t rows = layout_.num_reduced, columns = layout_.inner;
    const int64_t tiles = (columns + kReductionTile - 1) / kReductionTile;
    const int64_t units = layout_.num_kept * tiles;
    const int64_t parts = units >= 8 ? 1 : std::min(rows, std::clamp<int64_t>(rows * columns / kReductionChunk, 1, 32));
    if (parts <= 1) {
      const int64_t per_unit = std::max<int64_t>(1, rows * std::min(columns, kReductionTile));
      parallel_for(units, std::max<int64_t>(1, kReductionChunk / 2 / per_unit), [&](int64_t begin, int64_t end) {
        Totals<kReductionTile> totals;
        for (int64_t u = begin; u < end; ++u) {
          const int64_t k = u / tiles, first = u % tiles * kReductionTile;
          const int64_t width = std::min(kReductionTile, columns - first);
          add_rows(k, 0, rows, first, width, &totals);
          finish(&totals, width, rows, k * columns + first);
        }
      });
      return;
    }
    const int64_t bytes = static_cast<int64_t>(loops_.total_width);
    std::vector<Totals<1>> memory((layout_.num_kept * parts * columns * bytes + sizeof(Totals<1>) - 1) /
                                  sizeof(Totals<1>));
    auto partial = [&](int64_t k, int64_t part, int64_t column) {
      return reinterpret_cast<char*>(memory.data()) + ((k * parts + part) * columns + column) * bytes;
    };
    parallel_for(units * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = i / (tiles * parts), c = i / tiles % parts, first = i % tiles * kReductionTile;
        add_rows(k, rows * c / parts, rows * (c + 1) / parts, first, std::min(kReductionTile, columns - first),
                 partial(k, c, first));
      }
    });
    Totals<kReductionTile> totals;
    for (int64_t k = 0; k < layout_.num_kept; ++k)
      for (int64_t first = 0; first < columns; first += kReductionTile) {
        const int64_t width = std::min(kReductionTile, columns - first);
        loops_.set_identity(&totals, width);
        for (int64_t c = 0; c < parts; ++c) loops_.merge(&totals, partial(k, c, first), width);
        finish(&totals, width, rows, k * columns + first);
      }
  }

 private:
  const char* at(int64_t element) const { return in_ + element * static_cast<int64_t>(loops_.width); }
  void finish(const void* totals, int64_t n, int64_t count, int64_t result) const {
    loops_.finish(totals, n, count, variant_, out_ + result * static_cast<int64_t>(loops_.width));
  }

  // *total = elements [begin, end) of some runs that go into result k.
  void add_runs(int64_t k, int64_t run_begin, int64_t run_end, int64_t begin, int64_t end, void* total) const {
    const int64_t base = offset_of(layout_.kept, k) + begin;
    loops_.set_identity(total, 1);
    for (int64_t r = run_begin; r < run_end; ++r)
      loops_.add_run(at(base + offset_of(layout_.reduced, r)), end - begin, total);
  }

  // totals[j] = column first + j of rows [begin, end) that go into result k.
  void add_rows(int64_t k, int64_t begin, int64_t end, int64_t first, int64_t width, void* totals) const {
    const int64_t columns = layout_.inner;
    const char* base = at(offset_of(layout_.kept, k) + first);
    loops_.set_identity(totals, width);
    int64_t offsets[kReductionRows];
    auto add = [&](int64_t rows, int64_t row_width, void* to, const auto& offset) {
      for (int64_t some = 0; some < rows; some += kReductionRows) {
        const int64_t n = std::min(kReductionRows, rows - some);
        for (int64_t r = 0; r < n; ++r) offsets[r] = offset(some + r);
        loops_.add_rows(base, offsets, n, row_width, to);
      }
    };
    // Narrow matrices: so many rows side by side fill the vectors.
    const bool packed = layout_.reduced.size() == 1 && layout_.reduced[0].stride == columns && columns <= 32;
    const int64_t side = packed ? 64 / columns : 1;
    if (side > 1 && end - begin >= 2 * side) {
      Totals<64> wide;
      const int64_t groups = (end - begin) / side;
      loops_.set_identity(&wide, side * columns);
      add(groups, side * columns, &wide, [&](int64_t r) { return (begin + r * side) * columns; });
      for (int64_t s = 0; s < side; ++s)
        loops_.merge(totals, wide.bytes + s * columns * static_cast<int64_t>(loops_.total_width), columns);
      begin += groups * side;
    }
    add(end - begin, width, totals, [&](int64_t r) { return offset_of(layout_.reduced, begin + r); });
  }

  const char* in_;
  char* out_;
  const ReductionLayout& layout_;
  const ReductionLoops& loops_;
  int variant_;
};

// Elements that are computed before they are reduced: they stay in the first-level cache.
constexpr int64_t kProduced = 4 * kReductionBlock;
// reduce_run makes no smaller pieces of float32 than this at full vector speed.
constexpr int64_t kReductionStep = 4 * VectorOf<float>::kLanes;

// *total = merged with elements [first, first + n), in the pieces that reduce_run makes of them.
void add_produced(const ProduceRow& produce, int64_t first, int64_t n, const ReductionLoops& loops, void* total) {
  float memory[kProduced];
  for (int64_t i = 0; i < n; i += kProduced) {
    const int64_t count = std::min(kProduced, n - i);
    produce(first + i, count, memory);
    for (int64_t j = 0; j < count;) {
      int64_t piece = std::min(kReductionBlock, count - j);
      if (piece >= kReductionStep) piece = piece / kReductionStep * kReductionStep;
      loops.add_run(memory + j, piece, total);
      j += piece;
    }
  }
}

}  // namespace

void reduce_produced_rows(const ProduceRow& produce, int64_t rows, int64_t columns, const ReductionLoops& loops,
                          int variant, Tensor& out) {
  float* to = out.flat<float>();
  if (rows >= 8 || columns <= kReductionChunk) {
    parallel_for(rows, std::max<int64_t>(1, kReductionChunk / 2 / columns), [&](int64_t begin, int64_t end) {
      Totals<1> total;
      if (columns > kProduced) {
        for (int64_t k = begin; k < end; ++k) {
          loops.set_identity(&total, 1);
          add_produced(produce, k * columns, columns, loops, &total);
          loops.finish(&total, 1, columns, variant, to + k);
        }
        return;
      }
      float memory[kProduced];
      const int64_t together = kProduced / columns;
      for (int64_t k = begin; k < end; k += together) {
        const int64_t count = std::min(together, end - k);
        produce(k * columns, count * columns, memory);
        loops.reduce_rows(memory, count, columns, variant, to + k);
      }
    });
    return;
  }
  // As Reducing::rows cuts them.
  const int64_t parts = std::min(columns, std::clamp<int64_t>(columns / kReductionChunk, 1, 256));
  std::vector<Totals<1>> totals(rows * parts);
  parallel_for(rows * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = i / parts, c = i % parts;
      const int64_t from = columns * c / parts, last = columns * (c + 1) / parts;
      loops.set_identity(&totals[i], 1);
      add_produced(produce, k * columns + from, last - from, loops, &totals[i]);
    }
  });
  for (int64_t k = 0; k < rows; ++k) {
    Totals<1> total;
    loops.set_identity(&total, 1);
    for (int64_t c = 0; c < parts; ++c) loops.merge(&total, &totals[k * parts + c], 1);
    loops.finish(&total, 1, columns, variant, to + k);
  }
}

void compute_reduction(Context& ctx, const ReductionLayout& layout, const ReductionLoops& loops, int variant) {
  Tensor& out = ctx.allocate(0, layout.shape);
  if (out.num_elements() == 0) return;
  if (ctx.input(0).num_elements() == 0) {
    Totals<1> total;
    loops.set_identity(&total, 1);
    for (int64_t i = 0; i < out.num_elements(); ++i)
      loops.finish(&total, 1, 0, variant, static_cast<char*>(out.raw()) + i * static_cast<int64_t>(loops.width));
    return;
  }
  reduce_elements(ctx.input(0).raw(), layout, loops, variant, out.raw());
}

void reduce_elements(const void* in, const ReductionLayout& layout, const ReductionLoops& loops, int variant,
                     void* out) {
  const Reducing reducing(in, layout, loops, variant, out);
  layout.inner_reduced ? reducing.rows() : reducing.columns();
}

}  // namespace thalweg
