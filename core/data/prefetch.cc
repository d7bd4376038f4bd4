// prefetch: elements computed ahead of their consumer, in the background.
#include <deque>

#include "data/background.h"
#include "data/stages.h"
#include "kernel/registry.h"
#include "thread/thread_pool.h"

namespace thalweg {
namespace {

constexpr int64_t kChosenSize = 16;  // for autotuning
constexpr auto kTopUp = std::chrono::microseconds(500);

class Prefetching final : public DatasetIterator {
 public:
  Prefetching(const Dataset& input, const Making& making, int64_t size)
      : capacity_(static_cast<size_t>(size)), consumer_(making.waker), task_(std::make_shared<Background>()) {
    input_ = input.iterate(making.woken_by(task_));
    task_->set_body([this](Step& step) { return work(step); });
  }
  ~Prefetching() override { task_->close(); }

  Pulled next(Pull&, Element& out) override {
    std::optional<Error> error;
    bool refill = false, top_up = false;
    Pulled pulled = Pulled::element;
    {
      std::lock_guard lock(mutex_);
      if (items_.empty()) {
        if (ended_) return Pulled::end;
        waiting_ = true;
        refill = true;
        pulled = Pulled::later;
      } else {
        Item& item = items_.front();
        std::swap(out, item.element);
        error = std::move(item.error);
        if (spare_.size() < 4) spare_.push_back(std::move(item.element));
        items_.pop_front();
        // Half empty is early enough while elements are taken fast: to wake the task for each of them would cost more
        // than the element. If none is taken for a while the buffer is filled up.
        refill = !ended_ && items_.size() <= capacity_ / 2;
        top_up = !ended_ && !refill && !asked_ && !std::exchange(topping_up_, true);
      }
      if (refill) refill = !std::exchange(asked_, true);
    }
    if (refill) task_->rouse();
    if (top_up) Timers::shared().at(Timers::Clock::now() + kTopUp, [task = task_] { task->rouse(); });
    if (error) throw *error;
    return pulled;
  }
  bool buffered() const override { return true; }
  std::optional<Tensor> peek(size_t component) override {
    std::lock_guard lock(mutex_);
    if (items_.empty() || items_.front().error || component >= items_.front().element.size()) return std::nullopt;
    return items_.front().element[component];
  }

  void save(StateWriter& out) override {
    Background::Pause pause(*task_);
    std::lock_guard lock(mutex_);
    out.tag("PrefetchDataset");
    out.integer(ended_);
    out.integer(static_cast<int64_t>(items_.size()));
    for (const Item& item : items_) {
      out.integer(item.error ? static_cast<int64_t>(item.error->code()) : 0);
      if (item.error)
        out.text(item.error->message());
      else
        out.element(item.element);
    }
    input_->save(out);
  }
  void restore(StateReader& in) override {
    Background::Pause pause(*task_);
    std::lock_guard lock(mutex_);
    in.tag("PrefetchDataset");
    ended_ = in.integer() != 0;
    items_.clear();
    for (int64_t n = in.count(); n > 0; --n) {
      auto code = static_cast<Code>(in.integer());
      Item& item = items_.emplace_back();
      if (code != Code::ok)
        item.error.emplace(code, in.text());
      else
        item.element = in.element();
    }
    input_->restore(in);
  }

 private:
  struct Item {
    Element element;
    std::optional<Error> error;
  };

  // One element; on the background's thread.
  bool work(Step& step) {
    Item item;
    {
      std::lock_guard lock(mutex_);
      asked_ = topping_up_ = false;
      if (ended_ || items_.size() >= capacity_) return false;
      if (!spare_.empty()) {
        item.element = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    item.element.clear();
    Pull pull{step};
    Pulled pulled = Pulled::element;
    try {
      pulled = input_->next(pull, item.element);
    } catch (const Error& error) {
      item.error = error;
    } catch (const std::bad_alloc&) {
      item.error.emplace(Code::resource_exhausted, "out of memory");
    }
    if (pulled == Pulled::later) return false;
    bool wanted;
    bool more;
    {
      std::lock_guard lock(mutex_);
      if (pulled == Pulled::end)
        ended_ = true;
      else
        items_.push_back(std::move(item));
      wanted = std::exchange(waiting_, false);
      more = !ended_ && items_.size() < capacity_;
    }
    if (wanted) {
      // The woken consumer may drop the last reference to this iterator.
      std::shared_ptr<Waker> consumer = consumer_;
      consumer->wake();
    }
    return more;
  }

  const size_t capacity_;
  const std::shared_ptr<Waker> consumer_;
  const std::shared_ptr<Background> task_;
  std::unique_ptr<DatasetIterator> input_;  // the task's, while it runs
  std::mutex mutex_;                        // guards the rest
  std::deque<Item> items_;
  std::vector<Element> spare_;
  bool ended_ = false;
  bool waiting_ = false;     // a pull has returned `later`
  bool asked_ = false;       // the task was roused, and has not reset this yet
  bool topping_up_ = false;  // the task will be roused, and has not reset this yet
};

class Prefetch final : public UnaryDataset {
 public:
  Prefetch(Signature signature, DatasetPtr input, int64_t size)
      : UnaryDataset(std::move(signature), std::move(input)), size_(size == kAutotune ? kChosenSize : size) {
    require(size_ >= 0, "buffer_size must be >= 0 or set buffer_size to be ", kAutotune, " for auto-tuning");
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    if (size_ == 0) return input()->iterate(making);
    return std::make_unique<Prefetching>(*input(), making, size_);
  }
  bool pulls_may_wait() const override { return size_ == 0 && input()->pulls_may_wait(); }

 private:
  const int64_t size_;
};

void prefetch(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Prefetch>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "buffer_size"));
}

REGISTER(kernel("PrefetchDataset").function<prefetch>());

}  // namespace

std::unique_ptr<DatasetIterator> prefetched(const Dataset& input, const Making& making, int64_t size) {
  return std::make_unique<Prefetching>(input, making, size);
}

}  // namespace thalweg
