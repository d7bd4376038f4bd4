// Generators: elements that functions make: one that begins, one that gives the next, one that ends it.
#include "data/background.h"
#include "data/function_call.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class Generator final : public Dataset {
 public:
  Generator(Signature signature, Called init, Called next, Called finalize)
      : Dataset(std::move(signature)),
        parts_(std::make_shared<const Parts>(std::move(init), std::move(next), std::move(finalize))) {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(parts_, making.streams);
  }

 private:
  struct Parts {
    Called init, next, finalize;
  };
  struct Walk final : DatasetIterator {
    Walk(std::shared_ptr<const Parts> parts, std::shared_ptr<RandomStreams> streams)
        : parts(std::move(parts)), streams(std::move(streams)) {}
    ~Walk() override {
      try {
        OwnStep step;
        end(step);
      } catch (const std::exception&) {
        // The consumer is gone: the error is dropped.
      }
    }
    std::vector<Tensor> run(const Called& called, Step& step, const Element& state) const {
      std::vector<Tensor> args = state;
      args.insert(args.end(), called.captured->begin(), called.captured->end());
      StreamScope scope(step, streams);
      return called.function->run(step, std::move(args));
    }
    void end(Step& step) {
      if (!begun || ended) return;
      ended = true;
      run(parts->finalize, step, state);
    }
    Pulled next(Pull& pull, Element& out) override {
      if (ended) return Pulled::end;
      if (!begun) {
        state = run(parts->init, pull.step, {});
        begun = true;
      }
      try {
        out = run(parts->next, pull.step, state);
        return Pulled::element;
      } catch (const Error& error) {
        if (error.code() != Code::out_of_range) throw;
      }
      end(pull.step);
      return Pulled::end;
    }
    void save(StateWriter&) override { refuse(); }
    void restore(StateReader&) override { refuse(); }
    [[noreturn]] static void refuse() {
      fail(Code::failed_precondition,
           "the position of an iterator over a generator cannot be saved: only the generator knows it");
    }
    const std::shared_ptr<const Parts> parts;
    const std::shared_ptr<RandomStreams> streams;
    Element state;
    bool begun = false, ended = false;
  };
  const std::shared_ptr<const Parts> parts_;
};

void generator(Context& ctx) {
  Signature signature = declared_signature(ctx.def());
  int at = 0;
  auto called = [&](const char* name, const std::vector<DType>& arguments, const std::vector<DType>* results) {
    int n = static_cast<int>(ctx.def().attr<std::vector<DType>>(cat("T", name, "_args")).size());
    Element captured = inputs_between(ctx, at, at + n);
    at += n;
    auto function = function_attr(ctx, name, arguments, captured, results);
    return Called{std::move(function), std::make_shared<const Element>(std::move(captured))};
  };
  Called init = called("init_func", {}, nullptr);
  const std::vector<DType> state = init.function->results();
  Called next = called("next_func", state, &signature.types);
  Called finalize = called("finalize_func", state, nullptr);
  set_dataset<Generator>(ctx, std::move(signature), std::move(init), std::move(next), std::move(finalize));
}

REGISTER(kernel("GeneratorDataset").function<generator>());

}  // namespace
}  // namespace thalweg
