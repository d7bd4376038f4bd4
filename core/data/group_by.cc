// group_by_window and group_by_reducer: elements brought together by a key that a function gives them.
#include <deque>
#include <map>

#include "data/background.h"
#include "data/element_list.h"
#include "data/function_call.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

Called called(Context& ctx, const char* name, int first, const std::vector<DType>& arguments,
              const std::vector<DType>* results, int* next) {
  int n = static_cast<int>(ctx.def().attr<std::vector<DType>>(cat("T", name, "_other_arguments")).size());
  Element captured = inputs_between(ctx, first, first + n);
  *next = first + n;
  auto function = function_attr(ctx, name, arguments, captured, results);
  return {std::move(function), std::make_shared<const Element>(std::move(captured))};
}

int64_t one_integer(const Element& results, const char* what) {
  require(results.size() == 1 && results[0].dtype() == DType::int64 && results[0].num_elements() == 1, what,
          " must return a scalar int64.");
  return *results[0].flat<int64_t>();
}

class GroupByWindow final : public UnaryDataset {
 public:
  GroupByWindow(Signature signature, DatasetPtr input, Called key, Called reduce, Called size)
      : UnaryDataset(std::move(signature), std::move(input)),
        key_(std::move(key)),
        reduce_(std::move(reduce)),
        size_(std::move(size)) {}
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Group {
    int64_t size;
    std::vector<Element> elements;
  };
  enum class Doing : int64_t { pull, key, size, reduce, give };

  struct Walk final : UnaryIterator {
    Walk(const GroupByWindow& dataset, const Making& making)
        : UnaryIterator(dataset.input()->iterate(making)),
          making(making),
          elements(dataset.input()->signature()),
          types(dataset.signature().types),
          key_call(dataset.key_, making),
          reduce_call(dataset.reduce_, making),
          size_call(dataset.size_, making) {}

    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        pull.look();
        switch (doing) {
          case Doing::pull: {
            if (ended && groups.empty()) return Pulled::end;
            if (ended) {
              begin_reduce(groups.begin());
              break;
            }
            Pulled pulled = input_->next(pull, element);
            if (pulled == Pulled::later) return pulled;
            if (pulled == Pulled::end) {
              ended = true;
            } else {
              args = element;
              doing = Doing::key;
            }
            break;
          }
          case Doing::key: {
            doing = Doing::pull;  // where it goes on after an error
            if (!key_call.finish(pull, args, results)) return wait(Doing::key);
            key = one_integer(results, "`key_func`");
            args = {Tensor::scalar(key)};
            if (groups.contains(key))
              add();
            else
              doing = Doing::size;
            break;
          }
          case Doing::size: {
            doing = Doing::pull;
            if (!size_call.finish(pull, args, results)) return wait(Doing::size);
            int64_t size = one_integer(results, "`window_size_func`");
            require(size > 0, "Window size must be greater than zero, but got ", size, ".");
            groups[key].size = size;
            add();
            break;
          }
          case Doing::reduce: {
            doing = Doing::pull;
            if (!reduce_call.finish(pull, args, results)) return wait(Doing::reduce);
            require(results.size() == 1, "`reduce_func` must return a single dataset");
            DatasetPtr reduced = dataset_from_tensor(results[0]);
            require(reduced->signature().types == types, "`reduce_func` returned a dataset with elements of types ",
                    str(reduced->signature().types), ", declared are ", str(types));
            current = reduced->iterate(making);
            doing = Doing::give;
            break;
          }
          case Doing::give: {
            Pulled pulled = current->next(pull, out);
            if (pulled != Pulled::end) return pulled;
            current.reset();
            given.clear();
            doing = Doing::pull;
            break;
          }
        }
      }
    }
    Pulled wait(Doing what) {
      doing = what;
      return Pulled::later;
    }
    void add() {
      auto found = groups.find(key);
      found->second.elements.push_back(std::move(element));
      if (static_cast<int64_t>(found->second.elements.size()) >= found->second.size)
        begin_reduce(found);
      else
        doing = Doing::pull;
    }
    void begin_reduce(std::map<int64_t, Group>::iterator group) {
      key = group->first;
      given = std::move(group->second.elements);
      groups.erase(group);
      set_reduce_args();
      doing = Doing::reduce;
    }
    void set_reduce_args() {
      args = {Tensor::scalar(key), tensor_from_dataset(std::make_shared<const ElementList>(elements, given))};
    }
    void save(StateWriter& out) override {
      if (doing != Doing::pull && doing != Doing::give)
        fail(Code::unavailable, "a function of group_by_window is running: save the iterator's position later");
      out.tag("GroupByWindowDataset");
      out.integer(ended);
      out.integer(current != nullptr);
      if (current) {
        out.integer(key);
        out.integer(static_cast<int64_t>(given.size()));
        for (const Element& e : given) out.element(e);
        current->save(out);
      }
      out.integer(static_cast<int64_t>(groups.size()));
      for (const auto& [k, group] : groups) {
        out.integer(k);
        out.integer(group.size);
        out.integer(static_cast<int64_t>(group.elements.size()));
        for (const Element& e : group.elements) out.element(e);
      }
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("GroupByWindowDataset");
      ended = in.integer() != 0;
      current.reset();
      doing = Doing::pull;
      if (in.integer() != 0) {
        key = in.integer();
        given.clear();
        for (int64_t n = in.count(); n > 0; --n) given.push_back(in.element());
        set_reduce_args();
        OwnStep step;
        Pull pull{step};
        if (!reduce_call.finish(pull, args, results))
          fail(Code::unimplemented, "a group_by_window whose function waits cannot be restored");
        current = dataset_from_tensor(results.at(0))->iterate(making);
        current->restore(in);
        doing = Doing::give;
      }
      groups.clear();
      for (int64_t n = in.count(); n > 0; --n) {
        Group& group = groups[in.integer()];
        group.size = in.integer();
        for (int64_t k = in.count(); k > 0; --k) group.elements.push_back(in.element());
      }
      input_->restore(in);
    }
    const Making making;
    const Signature elements;
    const std::vector<DType> types;
    FunctionCall key_call, reduce_call, size_call;
    std::map<int64_t, Group> groups;
    Doing doing = Doing::pull;
    Element element, args, results;
    int64_t key = 0;
    std::vector<Element> given;  // the elements of `current`
    std::unique_ptr<DatasetIterator> current;
    bool ended = false;
  };
  const Called key_, reduce_, size_;
};

void group_by_window(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  const std::vector<DType> integer{DType::int64}, variant{DType::variant}, both{DType::int64, DType::variant};
  int next = 1;
  Called key = called(ctx, "key_func", next, input->signature().types, &integer, &next);
  Called reduce = called(ctx, "reduce_func", next, both, &variant, &next);
  Called size = called(ctx, "window_size_func", next, integer, &integer, &next);
  set_dataset<GroupByWindow>(ctx, std::move(signature), std::move(input), std::move(key), std::move(reduce),
                             std::move(size));
}

class GroupByReducer final : public UnaryDataset {
 public:
  GroupByReducer(Signature signature, DatasetPtr input, Called key, Called init, Called reduce, Called finalize)
      : UnaryDataset(std::move(signature), std::move(input)),
        key_(std::move(key)),
        init_(std::move(init)),
        reduce_(std::move(reduce)),
        finalize_(std::move(finalize)) {}
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  enum class Doing { pull, key, init, reduce, finalize };
  struct Walk final : UnaryIterator {
    Walk(const GroupByReducer& dataset, const Making& making)
        : UnaryIterator(dataset.input()->iterate(making)),
          key_call(dataset.key_, making),
          init_call(dataset.init_, making),
          reduce_call(dataset.reduce_, making),
          finalize_call(dataset.finalize_, making) {}

    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        pull.look();
        switch (doing) {
          case Doing::pull: {
            if (ended) {
              if (order.empty()) return Pulled::end;
              args = std::move(states[order.front()]);
              states.erase(order.front());
              order.pop_front();
              doing = Doing::finalize;
              break;
            }
            Pulled pulled = input_->next(pull, element);
            if (pulled == Pulled::later) return pulled;
            if (pulled == Pulled::end) {
              ended = true;
            } else {
              args = element;
              doing = Doing::key;
            }
            break;
          }
          case Doing::key: {
            doing = Doing::pull;
            if (!key_call.finish(pull, args, results)) return wait(Doing::key);
            key = one_integer(results, "`key_func`");
            if (states.contains(key)) {
              begin_reduce();
            } else {
              args = {Tensor::scalar(key)};
              doing = Doing::init;
            }
            break;
          }
          case Doing::init: {
            doing = Doing::pull;
            if (!init_call.finish(pull, args, results)) return wait(Doing::init);
            states[key] = results;
            order.push_back(key);
            begin_reduce();
            break;
          }
          case Doing::reduce: {
            doing = Doing::pull;
            if (!reduce_call.finish(pull, args, results)) return wait(Doing::reduce);
            states[key] = results;
            break;
          }
          case Doing::finalize: {
            doing = Doing::pull;
            if (!finalize_call.finish(pull, args, out)) return wait(Doing::finalize);
            return Pulled::element;
          }
        }
      }
    }
    Pulled wait(Doing what) {
      doing = what;
      return Pulled::later;
    }
    void begin_reduce() {
      args = states[key];
      for (Tensor& component : element) args.push_back(std::move(component));
      doing = Doing::reduce;
    }
    void save(StateWriter& out) override {
      out.tag("GroupByReducerDataset");
      out.integer(ended);
      out.integer(static_cast<int64_t>(order.size()));
      for (int64_t k : order) {
        out.integer(k);
        out.element(states[k]);
      }
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("GroupByReducerDataset");
      ended = in.integer() != 0;
      order.clear();
      states.clear();
      for (int64_t n = in.count(); n > 0; --n) {
        order.push_back(in.integer());
        states[order.back()] = in.element();
      }
      input_->restore(in);
    }
    FunctionCall key_call, init_call, reduce_call, finalize_call;
    std::map<int64_t, Element> states;
    std::deque<int64_t> order;  // of the keys' first elements
    Doing doing = Doing::pull;
    Element element, args, results;
    int64_t key = 0;
    bool ended = false;
  };
  const Called key_, init_, reduce_, finalize_;
};

void group_by_reducer(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  const std::vector<DType> integer{DType::int64};
  int next = 1;
  Called key = called(ctx, "key_func", next, input->signature().types, &integer, &next);
  Called init = called(ctx, "init_func", next, integer, nullptr, &next);
  const std::vector<DType> state = init.function->results();
  std::vector<DType> both = state;
  both.insert(both.end(), input->signature().types.begin(), input->signature().types.end());
  Called reduce = called(ctx, "reduce_func", next, both, &state, &next);
  Called finalize = called(ctx, "finalize_func", next, state, &signature.types, &next);
  set_dataset<GroupByReducer>(ctx, std::move(signature), std::move(input), std::move(key), std::move(init),
                              std::move(reduce), std::move(finalize));
}

REGISTER(kernel("GroupByWindowDataset").function<group_by_window>());
REGISTER(kernel("ExperimentalGroupByWindowDataset").function<group_by_window>());
REGISTER(kernel("GroupByReducerDataset").function<group_by_reducer>());
REGISTER(kernel("ExperimentalGroupByReducerDataset").function<group_by_reducer>());

}  // namespace
}  // namespace thalweg
