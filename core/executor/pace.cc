// Deciding by measured times whether a step gets several threads.
#include "executor/pace.h"

#include <algorithm>
#include <map>
#include <string>

#include "executor/plan.h"

namespace thalweg {
namespace {

constexpr int64_t kHeavy = 15'000;  // nanoseconds
// What it takes to pass the state on to another thread, and how much a team must save.
constexpr int64_t kPassing = 4'000, kLeastGain = 20'000;
constexpr double kLeastShare = 0.85, kKeptShare = 0.97;
constexpr int64_t kReading = 45;  // the clock, twice
constexpr int kTrials = 6;
constexpr uint64_t kLongestPause = 16384;

}  // namespace

std::atomic<bool> Pace::forced_{false};

Pace::Pace(const Plan& plan, int threads)
    : plan_(plan), threads_(threads), heavy_(new std::atomic<bool>[plan.nodes().size()]) {
  int computing = 0;
  for (size_t i = 0; i < plan.nodes().size(); ++i) {
    heavy_[i].store(false, std::memory_order_relaxed);
    const NodeItem& node = plan.node(static_cast<int32_t>(i));
    computing += node.kernel && node.kind == NodeKind::plain;
    always_ = always_ || node.may_wait;
  }
  never_ = threads_ < 2 || computing < 2 || plan.device().memory != nullptr;
  if (!never_ && always_) keep_order_of_resources();
}

void Pace::keep_order_of_resources() {
  const auto& nodes = plan_.nodes();
  if (!plan_.sequential() || !order_.later.empty()) return;
  order_.pending.assign(nodes.size(), 0);
  order_.later.resize(nodes.size());
  struct Uses {
    int32_t write = -1;
    std::vector<int32_t> reads;
  };
  std::map<std::string, Uses> by_resource;
  int32_t everything = -1;  // the last node that may use any resource
  auto after = [&](int32_t first, int32_t then) {
    if (first < 0) return;
    order_.later[first].push_back(then);
    ++order_.pending[then];
  };
  // The output that each slot gets.
  std::vector<const NodeItem*> source(plan_.frames()[0].num_slots, nullptr);
  for (const NodeItem& node : nodes)
    for (const Edge& edge : node.edges) source[edge.slot] = &node;
  auto name_of = [&](const NodeItem* from) -> std::string {
    // Handles that two arguments of a function bring may be the same.
    while (from != nullptr && from->num_inputs == 1 && from->def.input_dtypes[0] == DType::resource)
      from = source[from->first_slot];
    if (from == nullptr || !from->kernel) return "";
    const auto shared = from->def.attr<std::string>("shared_name", "");
    return cat(from->def.attr<std::string>("container", ""), ";", shared.empty() ? from->def.name : shared);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeItem& node = nodes[i];
    if (!node.kernel) continue;
    const int32_t at = static_cast<int32_t>(i);
    if (node.uses == ResourceUse::any) {
      after(everything, at);
      for (auto& [name, uses] : by_resource) {
        after(uses.write, at);
        for (int32_t read : uses.reads) after(read, at);
      }
      by_resource.clear();
      everything = at;
      continue;
    }
    for (int k = 0; k < node.num_inputs; ++k) {
      if (node.def.input_dtypes[k] != DType::resource) continue;
      Uses& uses = by_resource[name_of(source[node.first_slot + k])];
      after(uses.write, at);
      if (uses.write < 0) after(everything, at);
      if (node.uses == ResourceUse::reads) {
        uses.reads.push_back(at);
        continue;
      }
      for (int32_t read : uses.reads)
        if (read != at) after(read, at);
      uses.reads.clear();
      uses.write = at;
    }
  }
}

Pace::Mode Pace::begin(bool started) {
  if (never_ && !started) return {};
  if (!never_ && forced_.load(std::memory_order_relaxed)) [[unlikely]] {
    std::lock_guard lock(mutex_);
    keep_order_of_resources();
    return {true, false};
  }
  const uint64_t step = steps_.fetch_add(1, std::memory_order_relaxed);
  const bool measured = step >= next_measured_.load(std::memory_order_relaxed);
  return {!never_ && (always_ || (!measured && team_.load(std::memory_order_acquire))), measured};
}

bool Pace::is_worth_a_team(std::span<const Sample> samples, int64_t& serial) const {
  const auto& nodes = plan_.nodes();
  std::vector<int64_t> path(nodes.size(), 0);  // when each node could have ended
  int64_t work = 0, longest = 0, passed = 0;
  int heavy = 0;
  serial = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Sample& sample = samples[i];
    const int64_t time = std::max<int64_t>(0, sample.time - sample.runs * kReading);
    serial += time;
    work += time + sample.elsewhere;
    if (is_heavy(static_cast<int32_t>(i))) {
      ++heavy;
      passed += sample.runs * kPassing;
    }
    path[i] += time;
    longest = std::max(longest, path[i]);
    if (!plan_.flat()) continue;  // Iterations overlap: there is no path to be known.
    auto lead = [&](int32_t to) { path[to] = std::max(path[to], path[i]); };
    for (const Edge& edge : nodes[i].edges) lead(edge.node);
    for (int32_t to : nodes[i].controls) lead(to);
    if (!order_.later.empty())
      for (int32_t to : order_.later[i]) lead(to);
  }
  if (heavy < 2 && (heavy == 0 || plan_.flat())) return false;
  const int64_t expected = std::max(longest, work / threads_) + passed / threads_;
  return serial - expected > kLeastGain && static_cast<double>(expected) < kLeastShare * static_cast<double>(serial);
}

void Pace::end_measured(std::span<const Sample> measured, int64_t peak_bytes) {
  std::lock_guard lock(mutex_);
  std::vector<Sample> samples(measured.begin(), measured.end());
  for (size_t i = 0; i < last_.size(); ++i)
    if (last_[i].runs == samples[i].runs && last_[i].time < samples[i].time) samples[i] = last_[i];
  last_.assign(measured.begin(), measured.end());
  for (size_t i = 0; i < samples.size(); ++i)
    if (samples[i].runs > 0 && plan_.node(static_cast<int32_t>(i)).kind == NodeKind::plain)
      heavy_[i].store(samples[i].time / samples[i].runs >= kHeavy, std::memory_order_relaxed);
  constexpr int64_t kSlack = 32 << 20;
  bytes_ahead_.store(peak_bytes + peak_bytes / 2 + kSlack, std::memory_order_relaxed);
  const uint64_t now = steps_.load(std::memory_order_relaxed);
  // The first one may have paid for memory and packed weights.
  if (++measured_ > 2) pause_ = std::min(2 * pause_, kLongestPause);
  next_measured_.store(measured_ < 2 ? now : now + pause_, std::memory_order_relaxed);
  if (std::any_of(samples.begin(), samples.end(), [](const Sample& s) { return s.time >= kHeavy; }))
    keep_order_of_resources();
  const bool before = team_.load(std::memory_order_relaxed);
  const bool worth = is_worth_a_team(samples, serial_) && measured_ >= 2 && !never_;
  if (measured_ >= 2) known_.store(serial_, std::memory_order_relaxed);
  if (!before || !worth) tried_ = 0, best_of_team_ = 0;
  team_.store(worth, std::memory_order_release);
}

void Pace::end_team(int64_t nanoseconds) {
  if (always_ || forced_.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex_);
  if (tried_ >= kTrials) return;
  best_of_team_ = tried_ == 0 ? nanoseconds : std::min(best_of_team_, nanoseconds);
  if (++tried_ < kTrials) return;
  if (static_cast<double>(best_of_team_) > kKeptShare * static_cast<double>(serial_)) {
    team_.store(false, std::memory_order_relaxed);
    tried_ = 0;
    pause_ = std::min(4 * pause_, kLongestPause);
    next_measured_.store(steps_.load(std::memory_order_relaxed) + pause_, std::memory_order_relaxed);
  }
}

}  // namespace thalweg
