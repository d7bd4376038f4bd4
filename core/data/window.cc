// window: datasets of consecutive elements, one dataset per component.
//
// An element that cannot be computed has its place in the windows: each window that contains it fails, the others do
// not.
#include <deque>
#include <optional>

#include "data/element_list.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Extent {
  int64_t size, shift, stride;
  bool drop_remainder;
  // How many elements a whole window spans.
  int64_t span() const { return (size - 1) * stride + 1; }
};

class Window final : public UnaryDataset {
 public:
  Window(Signature signature, DatasetPtr input, Extent extent)
      : UnaryDataset(std::move(signature), std::move(input)), extent_(extent) {
    require(extent.size > 0, "Window size must be greater than zero.");
    require(extent.shift > 0, "Window shift must be greater than zero.");
    require(extent.stride > 0, "Window stride must be greater than zero.");
    int64_t span;
    require(!__builtin_mul_overflow(extent.size, extent.stride, &span), "A window of ", extent.size,
            " elements with stride ", extent.stride, " is too large.");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    if (n < 0) return n;
    if (!extent_.drop_remainder) return n / extent_.shift + (n % extent_.shift != 0);
    return n < extent_.span() ? 0 : (n - extent_.span()) / extent_.shift + 1;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(const Window& dataset, const Making& making)
        : UnaryIterator(dataset.input()->iterate(making)),
          signature(dataset.input()->signature()),
          extent(dataset.extent_) {}
    Pulled next(Pull& pull, Element& out) override {
      while (!ended && (skip > 0 || static_cast<int64_t>(buffer.size()) < extent.span())) {
        pull.look();
        Slot slot;
        Pulled pulled = Pulled::element;
        try {
          pulled = input_->next(pull, slot.element);
        } catch (const Error& error) {
          if (error.code() == Code::cancelled) throw;  // The step has ended, not the element.
          slot.error = error;
        }
        if (pulled == Pulled::later) return pulled;
        if (pulled == Pulled::end) {
          ended = true;
        } else if (skip > 0) {
          --skip;
        } else {
          buffer.push_back(std::move(slot));
        }
      }
      if (buffer.empty() || (extent.drop_remainder && static_cast<int64_t>(buffer.size()) < extent.span())) {
        buffer.clear();
        return Pulled::end;
      }
      std::vector<std::vector<Element>> windows(signature.types.size());
      std::optional<Error> error;
      for (int64_t i = 0; i < extent.size && i * extent.stride < static_cast<int64_t>(buffer.size()); ++i) {
        const Slot& slot = buffer[static_cast<size_t>(i * extent.stride)];
        if (slot.error && !error) error = slot.error;
        for (size_t c = 0; c < windows.size() && !error; ++c) windows[c].push_back({slot.element[c]});
      }
      auto gone = std::min<int64_t>(extent.shift, static_cast<int64_t>(buffer.size()));
      buffer.erase(buffer.begin(), buffer.begin() + gone);
      skip = extent.shift - gone;
      if (error) throw *error;
      out.clear();
      for (size_t c = 0; c < windows.size(); ++c)
        out.push_back(tensor_from_dataset(std::make_shared<const ElementList>(
            Signature{{signature.types[c]}, {signature.shapes[c]}}, std::move(windows[c]))));
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("WindowDataset");
      out.integer(ended);
      out.integer(skip);
      out.integer(static_cast<int64_t>(buffer.size()));
      for (const Slot& slot : buffer) {
        out.integer(slot.error ? static_cast<int64_t>(slot.error->code()) : 0);
        if (slot.error)
          out.text(slot.error->message());
        else
          out.element(slot.element);
      }
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("WindowDataset");
      ended = in.integer() != 0;
      skip = in.integer();
      buffer.clear();
      for (int64_t n = in.count(); n > 0; --n) {
        const int64_t code = in.integer();
        require(code >= 0 && code <= static_cast<int64_t>(Code::data_loss), "a saved window has an error of code ",
                code);
        Slot slot;
        if (code != 0)
          slot.error = Error(static_cast<Code>(code), in.text());
        else
          slot.element = in.element();
        buffer.push_back(std::move(slot));
      }
      input_->restore(in);
    }
    const Signature signature;
    const Extent extent;
    struct Slot {
      Element element;
      std::optional<Error> error;  // of the element's computation
    };
    std::deque<Slot> buffer;
    int64_t skip = 0;  // elements between this window and the next
    bool ended = false;
  };
  const Extent extent_;
};

void window(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  require(signature.types == std::vector<DType>(input->width(), DType::variant), "windows of ", input->width(),
          " components are declared as ", str(signature.types));
  Extent extent{int_input(ctx, 1, "size"), int_input(ctx, 2, "shift"), int_input(ctx, 3, "stride"),
                bool_input(ctx, 4, "drop_remainder")};
  set_dataset<Window>(ctx, std::move(signature), std::move(input), extent);
}

REGISTER(kernel("WindowDataset").function<window>());

}  // namespace
}  // namespace thalweg
