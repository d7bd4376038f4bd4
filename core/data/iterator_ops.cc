// The ops on iterators: making them, starting them over, taking elements, passing them as strings, saving their place.
#include <algorithm>

#include "data/boxed_tensor.h"
#include "data/iterator.h"
#include "function/function.h"
#include "kernel/registry.h"
#include "tensor/handle_tensor.h"

namespace thalweg {
namespace {

// An iterator belongs to its session, as the kernels that it runs do: a named container only becomes part of its name.
struct MakeHandle : Kernel {
  explicit MakeHandle(const Construction& c)
      : name(c.attr<std::string>("shared_name", "")), signature(declared_signature(c.def())) {
    if (name.empty()) name = c.def().name;
    const std::string container = c.attr<std::string>("container", "");
    if (!container.empty()) name = container + "/" + name;
  }
  // Looked up for each step: a handle kept here would keep the iterator beyond its session.
  void compute(Context& ctx) override {
    Device& device = ctx.device();
    auto iterator = device.resources.find_or_make<IteratorResource>(
        "", name, [&] { return std::make_shared<IteratorResource>(signature, device); });
    check_signature(signature, iterator->signature(), "iterator");
    ctx.set_output(0, handle_tensor({device.name, "", name, std::move(iterator)}));
  }
  std::string name;
  Signature signature;
};

// Makes its dataset with a function when it is first run, and never again.
struct OneShot : Kernel {
  explicit OneShot(const Construction& c)
      : factory(c.attr<std::shared_ptr<Function>>("dataset_factory")),
        name(c.attr<std::string>("shared_name", "")),
        signature(declared_signature(c.def())) {
    if (name.empty()) name = c.def().name;
  }
  void compute(Context& ctx) override {
    Device& device = ctx.device();
    std::lock_guard lock(mutex);
    auto iterator = device.resources.find_or_make<IteratorResource>(
        "", name, [&] { return std::make_shared<IteratorResource>(signature, device); });
    if (!iterator->initialized()) {
      std::vector<Tensor> made = factory->run(ctx.step(), {});
      require(made.size() == 1, "The `dataset_factory` function must return a single dataset, not ", made.size(),
              " values");
      iterator->initialize(dataset_from_tensor(made[0]));
    }
    ctx.set_output(0, handle_tensor({device.name, "", name, std::move(iterator)}));
  }
  const std::shared_ptr<Function> factory;
  std::string name;
  const Signature signature;
  std::mutex mutex;  // held while the dataset is made: steps that come meanwhile get the same one
};

void make_iterator(Context& ctx) { ctx.resource<IteratorResource>(1).initialize(dataset_input(ctx, 0)); }

void deliver_components(AsyncContext& ctx, Element* element) {
  if (element == nullptr) fail(Code::out_of_range, "End of sequence");
  require(static_cast<int>(element->size()) == ctx.num_outputs(), "the iterator has elements of ", element->size(),
          " components, the op has ", ctx.num_outputs(), " outputs");
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    Tensor& component = (*element)[static_cast<size_t>(i)];
    require(component.dtype() == ctx.output_dtype(i), "component ", i, " of the element has type ", component.dtype(),
            ", the op declares ", ctx.output_dtype(i));
    ctx.set_output(i, std::move(component));
  }
}

// An element, or the lack of one, as a value.
class OptionalElement : public Resource {
 public:
  OptionalElement() = default;
  explicit OptionalElement(Element element) : element_(std::move(element)) {}
  const char* kind() const override { return "an optional"; }
  const std::optional<Element>& element() const { return element_; }

 private:
  const std::optional<Element> element_;
};

Tensor variant_of(std::shared_ptr<Resource> value) {
  Tensor out(DType::variant, Shape{});
  out.flat<ResourceHandle>()->resource = std::move(value);
  return out;
}

const std::optional<Element>& optional_input(Context& ctx) {
  const Tensor& variant = ctx.input(0);
  require(variant.dtype() == DType::variant && variant.num_elements() == 1, "expected an optional, got ",
          variant.dtype(), variant.shape());
  auto* optional = dynamic_cast<OptionalElement*>(variant.flat<ResourceHandle>()->resource.get());
  require(optional != nullptr, "expected an optional, got another variant");
  return optional->element();
}

void deliver_optional(AsyncContext& ctx, Element* element) {
  ctx.set_output(0, variant_of(element == nullptr ? std::make_shared<OptionalElement>()
                                                  : std::make_shared<OptionalElement>(std::move(*element))));
}

void optional_from_value(Context& ctx) {
  Element element;
  for (int i = 0; i < ctx.num_inputs(); ++i) element.push_back(ctx.input(i).owned());
  ctx.set_output(0, variant_of(std::make_shared<OptionalElement>(std::move(element))));
}

void optional_none(Context& ctx) { ctx.set_output(0, variant_of(std::make_shared<OptionalElement>())); }

void optional_has_value(Context& ctx) { ctx.set_output(0, Tensor::scalar(optional_input(ctx).has_value())); }

void optional_get_value(Context& ctx) {
  const std::optional<Element>& element = optional_input(ctx);
  require(element.has_value(), "The given optional does not have a value.");
  require(static_cast<int>(element->size()) == ctx.num_outputs(), "the optional has ", element->size(),
          " components, the op has ", ctx.num_outputs(), " outputs");
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    const Tensor& component = (*element)[static_cast<size_t>(i)];
    require(component.dtype() == ctx.output_dtype(i), "component ", i, " of the optional has type ", component.dtype(),
            ", the op declares ", ctx.output_dtype(i));
    ctx.set_output(i, component);
  }
}

void request(std::shared_ptr<AsyncContext> ctx, Traversal::Deliver deliver) {
  std::shared_ptr<Traversal> traversal;
  try {
    traversal = ctx->resource<IteratorResource>(0).traversal();
    // The request must not keep the iterator beyond its session, which may go as soon as the request is done.
    ctx->take_input(0);
  } catch (Error& error) {
    ctx->fail(std::move(error));
    return;
  }
  traversal->request(std::move(ctx), deliver);
}

struct GetNext : AsyncKernel {
  explicit GetNext(const Construction&) {}
  void start(std::shared_ptr<AsyncContext> ctx) override { request(std::move(ctx), deliver_components); }
};

struct GetNextAsOptional : AsyncKernel {
  explicit GetNextAsOptional(const Construction&) {}
  void start(std::shared_ptr<AsyncContext> ctx) override { request(std::move(ctx), deliver_optional); }
};

// A component of the element that comes after the one that `after` is from, or a tensor without elements if it is not
// there yet. Does not wait.
struct IteratorPeek : Kernel {
  explicit IteratorPeek(const Construction& c) : component(c.attr<int64_t>("component")) {}
  void compute(Context& ctx) override {
    auto& iterator = ctx.resource<IteratorResource>(0);
    const Signature& signature = iterator.signature();
    require(component >= 0 && component < static_cast<int64_t>(signature.types.size()), "the iterator has ",
            signature.types.size(), " components, there is no number ", component);
    const auto at = static_cast<size_t>(component);
    require(signature.types[at] == ctx.output_dtype(0), "component ", component, " has type ", signature.types[at],
            ", the op declares ", ctx.output_dtype(0));
    std::optional<Tensor> coming;
    if (iterator.initialized()) coming = iterator.traversal()->peek(at);
    if (!coming) {
      std::vector<int64_t> dims = signature.shapes[at].dims;
      std::replace(dims.begin(), dims.end(), int64_t{-1}, int64_t{0});
      if (dims.empty()) dims.push_back(0);
      dims[0] = 0;
      coming = Tensor(ctx.output_dtype(0), Shape(dims));
    }
    ctx.set_output(0, std::move(*coming));
  }
  const int64_t component;
};

// The only element of a dataset.
class OnlyElement final : public UnaryDataset {
 public:
  explicit OnlyElement(const DatasetPtr& input) : UnaryDataset(input->signature(), input) {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making));
  }

 private:
  struct Walk final : UnaryIterator {
    using UnaryIterator::UnaryIterator;
    Pulled next(Pull& pull, Element& out) override {
      if (element.empty()) {
        Pulled pulled = input_->next(pull, element);
        if (pulled == Pulled::later) return pulled;
        require(pulled == Pulled::element, "Dataset was empty.");
      }
      Pulled pulled = input_->next(pull, out);
      require(pulled != Pulled::element, "Dataset had more than one element.");
      if (pulled == Pulled::later) return pulled;
      out = std::move(element);
      return Pulled::element;
    }
    Element element;
  };
};

struct GetSingleElement : AsyncKernel {
  explicit GetSingleElement(const Construction&) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    std::shared_ptr<Traversal> traversal;
    try {
      auto only = std::make_shared<const OnlyElement>(dataset_input(*ctx, 0));
      traversal = Traversal::begin(*only, ctx->device());
    } catch (Error& error) {
      ctx->fail(std::move(error));
      return;
    }
    traversal->request(std::move(ctx), deliver_components);
  }
};

void cardinality(Context& ctx) { ctx.set_output(0, Tensor::scalar(dataset_input(ctx, 0)->cardinality())); }

constexpr std::string_view kHandlePrefix = "iterator:";

void to_string_handle(Context& ctx) {
  ctx.resource<IteratorResource>(0);
  ctx.set_output(0, Tensor::scalar(cat(kHandlePrefix, ctx.input(0).flat<ResourceHandle>()->name)));
}

void from_string_handle(Context& ctx) {
  const std::string& text = string_input(ctx, 0, "string_handle");
  require(text.starts_with(kHandlePrefix), "string_handle is not the handle of an iterator: '", text, "'");
  std::string name = text.substr(kHandlePrefix.size());
  std::shared_ptr<Resource> found = ctx.device().resources.find("", name);
  if (!found) fail(Code::not_found, "there is no iterator '", name, "' in this session");
  auto iterator = std::dynamic_pointer_cast<IteratorResource>(found);
  require(iterator != nullptr, "'", name, "' is ", found->kind(), ", not an iterator");
  Signature declared = declared_signature(ctx.def());
  if (!declared.types.empty()) check_signature(declared, iterator->signature(), "op");
  ctx.set_output(0, handle_tensor({ctx.device().name, "", name, std::move(iterator)}));
}

void get_device(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<IteratorResource>(0).device().name)); }

void save_text(Context& ctx) { ctx.set_output(0, Tensor::scalar(ctx.resource<IteratorResource>(0).save())); }
void restore_text(Context& ctx) {
  ctx.resource<IteratorResource>(0).restore(string_input(ctx, 1, "the saved position"));
}

void serialize_iterator(Context& ctx) {
  Tensor out(DType::variant, Shape{});
  out.flat<ResourceHandle>()->resource =
      std::make_shared<BoxedTensor>(Tensor::scalar(ctx.resource<IteratorResource>(0).save()));
  ctx.set_output(0, std::move(out));
}

void deserialize_iterator(Context& ctx) {
  const Tensor& variant = ctx.input(1);
  require(variant.dtype() == DType::variant && variant.num_elements() == 1, "expected one variant, got ",
          variant.dtype(), variant.shape());
  auto* boxed = dynamic_cast<BoxedTensor*>(variant.flat<ResourceHandle>()->resource.get());
  require(boxed != nullptr && boxed->value().dtype() == DType::string && boxed->value().num_elements() == 1,
          "the variant does not hold the position of an iterator");
  ctx.resource<IteratorResource>(0).restore(*boxed->value().strings());
}

REGISTER(kernel("IteratorV2").make<MakeHandle>());
REGISTER(kernel("Iterator").make<MakeHandle>());
REGISTER(kernel("OneShotIterator").make<OneShot>());
REGISTER(kernel("MakeIterator").function<make_iterator>());
REGISTER(kernel("_IteratorPeek").make<IteratorPeek>());
REGISTER(kernel("IteratorGetNext").make<GetNext>());
REGISTER(kernel("IteratorGetNextSync").make<GetNext>());
REGISTER(kernel("IteratorGetNextAsOptional").make<GetNextAsOptional>());
REGISTER(kernel("OptionalFromValue").function<optional_from_value>());
REGISTER(kernel("OptionalNone").function<optional_none>());
REGISTER(kernel("OptionalHasValue").function<optional_has_value>());
REGISTER(kernel("OptionalGetValue").function<optional_get_value>());
REGISTER(kernel("DatasetToSingleElement").make<GetSingleElement>());
REGISTER(kernel("DatasetCardinality").function<cardinality>());
REGISTER(kernel("ExperimentalDatasetCardinality").function<cardinality>());
REGISTER(kernel("IteratorToStringHandle").function<to_string_handle>());
REGISTER(kernel("IteratorFromStringHandle").function<from_string_handle>());
REGISTER(kernel("IteratorFromStringHandleV2").function<from_string_handle>());
REGISTER(kernel("IteratorGetDevice").function<get_device>());
REGISTER(kernel("ExperimentalIteratorGetDevice").function<get_device>());
REGISTER(kernel("SerializeIterator").function<serialize_iterator>());
REGISTER(kernel("DeserializeIterator").function<deserialize_iterator>());
REGISTER(kernel("_IteratorPosition").function<save_text>());
REGISTER(kernel("_RestoreIteratorPosition").function<restore_text>());

}  // namespace
}  // namespace thalweg
