// RegexFullMatch, RegexReplace and their forms with the pattern as an attribute.
#include "regex/regex.h"

#include "executor/step.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using regex::Regex;

// Searches long texts under the eyes of the step.
Regex::Poll poll_of(Context& ctx) {
  return [&step = ctx.step()] {
    step.tick();
    if (step.interrupted()) fail(Code::cancelled, "the step has ended");
  };
}

const std::string& scalar_text(const Tensor& t, const char* what) {
  require(t.rank() == 0, what, " must be scalar, but received shape ", t.shape());
  return *t.strings();
}

// A pattern that is an attribute, or an input: then the last one is kept, because it hardly ever changes.
class Pattern {
 public:
  explicit Pattern(const Construction& c, bool is_static) {
    if (is_static) kept_ = std::make_shared<const Regex>(text_ = c.attr<std::string>("pattern"));
  }
  std::shared_ptr<const Regex> get(Context& ctx) {
    if (ctx.num_inputs() == 1) return kept_;
    const std::string& text = scalar_text(ctx.input(1), "Pattern");
    {
      std::lock_guard lock(mutex_);
      if (kept_ && text == text_) return kept_;
    }
    auto made = std::make_shared<const Regex>(text);
    std::lock_guard lock(mutex_);
    text_ = text;
    kept_ = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::shared_ptr<const Regex> kept_;
};

template <bool is_static>
struct RegexFullMatch : Kernel {
  explicit RegexFullMatch(const Construction& c) : pattern(c, is_static) {}
  void compute(Context& ctx) override {
    const Tensor& texts = ctx.input(0);
    const auto regex = pattern.get(ctx);
    Tensor& out = ctx.allocate(0, texts.shape());
    const Regex::Poll poll = poll_of(ctx);
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      out.flat<bool>()[i] = regex->matches_all_of(texts.strings()[i], poll);
      if (i % 1024 == 1023) poll();
    }
  }
  Pattern pattern;
};

template <bool is_static>
struct RegexReplace : Kernel {
  explicit RegexReplace(const Construction& c) : pattern(c, is_static), all(c.attr<bool>("replace_global", true)) {
    if (is_static) rewrite = c.attr<std::string>("rewrite");
  }
  void compute(Context& ctx) override {
    const Tensor& texts = ctx.input(0);
    const auto regex = pattern.get(ctx);
    const std::string& by = is_static ? rewrite : scalar_text(ctx.input(2), "Rewrite");
    Tensor& out = ctx.allocate(0, texts.shape());
    const Regex::Poll poll = poll_of(ctx);
    for (int64_t i = 0; i < texts.num_elements(); ++i) {
      out.strings()[i] = regex->replaced(texts.strings()[i], by, all, poll);
      if (i % 1024 == 1023) poll();
    }
  }
  Pattern pattern;
  const bool all;
  std::string rewrite;
};

REGISTER(kernel("RegexFullMatch").make<RegexFullMatch<false>>());
REGISTER(kernel("StaticRegexFullMatch").make<RegexFullMatch<true>>());
REGISTER(kernel("RegexReplace").make<RegexReplace<false>>());
REGISTER(kernel("StaticRegexReplace").make<RegexReplace<true>>());

}  // namespace
}  // namespace thalweg
