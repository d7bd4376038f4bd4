// Shard: index, rows and cuts.
#include "embedding/shard.h"

#include "embedding/cold_rows.h"
#include "error.h"

namespace thalweg::embedding {
namespace {

constexpr size_t kFirstSlots = 16;
// As many removed keys are remembered however few rows there are.
constexpr size_t kFewRemovals = 1024;

// A copy of a text, with its length in front; its address stands for the key in the row.
std::unique_ptr<char[]> copy_of(std::string_view text) {
  auto copy = std::make_unique<char[]>(sizeof(uint32_t) + text.size());
  auto size = static_cast<uint32_t>(text.size());
  std::memcpy(copy.get(), &size, sizeof(size));
  std::memcpy(copy.get() + sizeof(size), text.data(), text.size());
  return copy;
}

void append_row(std::string* out, bool text, const Key& key, const char* row, size_t payload) {
  append_key(out, text, key);
  const RowHeader& header = RowLayout::header(row);
  const uint32_t numbers[2] = {header.step, header.count()};
  out->append(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  out->append(RowLayout::value(row), payload);
}

}  // namespace

std::string_view text_of(const RowHeader& header) {
  const char* at = reinterpret_cast<const char*>(header.key);
  uint32_t size;
  std::memcpy(&size, at, sizeof(size));
  return {at + sizeof(size), size};
}

void append_key(std::string* out, bool text, const Key& key) {
  if (text) {
    auto size = static_cast<uint32_t>(key.text.size());
    out->append(reinterpret_cast<const char*>(&size), sizeof(size));
    out->append(key.text);
  } else {
    out->append(reinterpret_cast<const char*>(&key.id), sizeof(key.id));
  }
}

Shard::Shard(const Options& options, const RowLayout& layout)
    : options_(&options),
      layout_(&layout),
      text_(options.key == DType::string),
      stride_(layout.stride()),
      index_(kFirstSlots, 0) {}

Shard::~Shard() { clear(); }

std::string_view Shard::text(uint32_t number) const { return text_of(header(number)); }

Key Shard::key_of_row(const RowHeader& header) const {
  return text_ ? key_of(text_of(header)) : key_of(static_cast<int64_t>(header.key));
}

bool Shard::has_key(uint32_t number, const Key& key) const {
  return text_ ? text(number) == key.text : header(number).key == key.id;
}

uint32_t Shard::find(const Key& key) const {
  const uint32_t tag = tag_of(key.hash);
  for (size_t at = home(key.hash);;) {
    uint32_t slot = index_[at];
    if (slot == 0) return kNone;
    if ((slot & 0xff000000u) == tag) {
      uint32_t number = (slot & 0x00ffffffu) - 1;
      if (has_key(number, key)) return number;
    }
    if (++at == index_.size()) at = 0;
  }
}

void Shard::prefetch_row(uint64_t hash, size_t bytes) const {
  const uint32_t tag = tag_of(hash);
  for (size_t at = home(hash);;) {
    uint32_t slot = index_[at];
    if (slot == 0) return;
    if ((slot & 0xff000000u) == tag) {
      const char* begin = row((slot & 0x00ffffffu) - 1);
      for (size_t line = 0; line < bytes; line += 64) __builtin_prefetch(begin + line);
      __builtin_prefetch(begin + bytes - 1);
      return;
    }
    if (++at == index_.size()) at = 0;
  }
}

void Shard::occupy(uint64_t hash, uint32_t number) {
  size_t at = home(hash);
  while (index_[at] != 0)
    if (++at == index_.size()) at = 0;
  index_[at] = tag_of(hash) | (number + 1);
}

void Shard::rebuild(size_t slots) {
  index_.assign(slots, 0);
  for (uint32_t i = 0; i < end_; ++i)
    if (header(i).live()) occupy(key(i).hash, i);
}

uint32_t Shard::make_room(uint64_t hash) {
  if (static_cast<size_t>(live_ + 1) * 5 > index_.size() * 4) rebuild(index_.size() + index_.size() / 4 + 1);
  uint32_t number = end_;
  if (free_.empty()) {
    if (end_ == kMostRows)
      fail(Code::resource_exhausted, "an embedding table holds ", int64_t{kMostRows},
           " rows in one of its shards, the most there can be; spread it over more tasks with a partitioner");
    memory_.reserve(static_cast<size_t>(end_ + 1) * stride_);
    ++end_;
  } else {
    number = free_.back();
    free_.pop_back();
  }
  occupy(hash, number);
  ++live_;
  return number;
}

uint32_t Shard::insert(const Key& key, uint32_t step) {
  auto text = text_ ? copy_of(key.text) : nullptr;
  const uint32_t number = make_room(key.hash);
  char* at = row(number);
  RowHeader& head = header(number);
  head.key = text_ ? reinterpret_cast<uint64_t>(text.release()) : key.id;
  if (text_) text_bytes_ += key.text.size() + sizeof(uint32_t);
  head.step = step;
  head.set(0, epoch_, true);
  if (layout_->precision() == Precision::float32) {
    first_value(options_->first, key.id, reinterpret_cast<float*>(RowLayout::value(at)), layout_->dim());
  } else {
    std::vector<float> value(static_cast<size_t>(layout_->dim()));
    first_value(options_->first, key.id, value.data(), layout_->dim());
    layout_->encode(value.data(), RowLayout::value(at), key.id);
  }
  layout_->initialize_slots(at);
  return number;
}

void Shard::before_change(uint32_t number) {
  RowHeader& head = header(number);
  if (head.epoch() == epoch_) return;
  const uint32_t before = 3 - epoch_;
  if (cut_active_ && number >= cut_cursor_ && (cut_full_ || head.epoch() == before)) {
    append_row(&copies_, text_, key(number), row(number), layout_->payload_bytes());
    ++copied_;
  }
  head.set(head.count(), epoch_, true);
}

int64_t Shard::all_rows() const { return live_ + (cold_ ? cold_->rows() : 0); }

void Shard::note_removed(const Key& key) {
  if (!remembers_) return;
  // Without a further save, the list of removals would fill the memory. A segment with all rows costs little more than
  // one with as many removals.
  if (removed_ids_.size() + removed_texts_.size() >= kFewRemovals + static_cast<size_t>(all_rows())) {
    forget_removals();
    forgot_ = true;
    return;
  }
  if (text_)
    removed_texts_.emplace_back(key.text);
  else
    removed_ids_.push_back(key.id);
}

void Shard::erase(uint32_t number) {
  before_change(number);
  note_removed(key(number));
  release(number);
  if (text_) drop_text(header(number).key);
}

void Shard::drop_text(uint64_t kept) {
  text_bytes_ -= text_of({kept, 0, 0}).size() + sizeof(uint32_t);
  delete[] reinterpret_cast<char*>(kept);
}

// Takes the row out of the index, and its number to the free ones.
void Shard::release(uint32_t number) {
  const Key removed = key(number);
  size_t at = home(removed.hash);
  while (index_[at] != (tag_of(removed.hash) | (number + 1)))
    if (++at == index_.size()) at = 0;
  // Rows behind it that were pushed on by it move back, so that no probing ends too early.
  for (size_t next = at;;) {
    if (++next == index_.size()) next = 0;
    if (index_[next] == 0) break;
    size_t wanted = home(key((index_[next] & 0x00ffffffu) - 1).hash);
    bool stays = at <= next ? (at < wanted && wanted <= next) : (at < wanted || wanted <= next);
    if (stays) continue;
    index_[at] = index_[next];
    at = next;
  }
  index_[at] = 0;
  header(number).set(0, 0, false);
  free_.push_back(number);
  --live_;
}

void Shard::clear() {
  if (text_) {
    for (uint32_t i = 0; i < end_; ++i)
      if (header(i).live()) delete[] reinterpret_cast<char*>(header(i).key);
  }
  cold_.reset();
  memory_ = RowMemory();
  index_.assign(kFirstSlots, 0);
  index_.shrink_to_fit();
  free_ = {};
  end_ = 0;
  live_ = 0;
  text_bytes_ = 0;
  stride_ = layout_->stride();
  forget_removals();
  end_cut();
}

void Shard::forget_removals() {
  remembers_ = forgot_ = false;
  removed_ids_ = {};
  removed_texts_ = {};
}

size_t Shard::bytes() const {
  return static_cast<size_t>(end_) * stride_ + index_.capacity() * 4 + free_.capacity() * 4 + text_bytes_ +
         (cold_ ? cold_->index_bytes() : 0);
}

void Shard::prepare_slots(size_t had) {
  memory_.reserve(static_cast<size_t>(end_) * layout_->stride());
  if (cold_ == nullptr) return;
  wider_ = std::make_unique<ColdRows>(options_->folder, text_, layout_->stride());
  std::string bytes(layout_->stride(), '\0');
  for (uint32_t place = 0; place < cold_->end(); ++place) {
    if (!cold_->in_use(place)) continue;
    cold_->read(place, bytes.data());
    layout_->initialize_slots(bytes.data(), had);
    wider_->add(key_of_row(RowLayout::header(bytes.data())), bytes.data(), cold_->epoch(place));
  }
}

void Shard::cancel_slots() {
  if (wider_) wider_->abandon_texts();
  wider_.reset();
}

void Shard::add_slots(size_t had) {
  const size_t old_stride = stride_;
  stride_ = layout_->stride();
  for (uint32_t i = end_; i-- > 0;) {
    char* to = row(i);
    std::memmove(to, memory_.data() + static_cast<size_t>(i) * old_stride,
                 sizeof(RowHeader) + layout_->payload_bytes(had));
    if (header(i).live()) layout_->initialize_slots(to, had);
  }
  if (cold_ == nullptr) return;
  cold_->abandon_texts();
  cold_ = std::move(wider_);
}

void Shard::begin_cut(bool full) {
  cut_active_ = true;
  cut_full_ = full;
  cut_cursor_ = 0;
  cut_end_ = end_;
  remembers_ = true;
  forgot_ = false;
  epoch_ = 3 - epoch_;
}

bool Shard::next_of_cut(size_t limit, std::string* out, int64_t* records) {
  if (copied_ > 0) {
    *records += copied_;
    out->append(copies_);
    copies_.clear();
    copied_ = 0;
  }
  const uint32_t before = 3 - epoch_;
  // Rows are farther apart than the processor looks ahead by itself.
  constexpr uint32_t kHeadersAhead = 16;
  for (; limit > 0 && cut_cursor_ < cut_end_; --limit, ++cut_cursor_) {
    if (cut_end_ - cut_cursor_ > kHeadersAhead) __builtin_prefetch(&header(cut_cursor_ + kHeadersAhead));
    RowHeader& head = header(cut_cursor_);
    if (!head.live() || head.epoch() == epoch_) continue;
    if (!cut_full_ && head.epoch() != before) continue;
    append_record(cut_cursor_, out);
    ++*records;
    head.set(head.count(), 0, true);
  }
  if (cut_cursor_ < cut_end_) return false;
  if (cold_ == nullptr) return true;
  // Rows on disk follow; the cursor goes on behind the last number of a row in memory.
  std::string row_bytes(stride_, '\0');
  for (; limit > 0; --limit, ++cut_cursor_) {
    const uint32_t place = cut_cursor_ - cut_end_;
    if (place >= cold_->end()) return true;
    if (!cold_->in_use(place) || cold_->epoch(place) == epoch_) continue;
    if (!cut_full_ && cold_->epoch(place) != before) continue;
    cold_->read(place, row_bytes.data());
    const RowHeader& head = RowLayout::header(row_bytes.data());
    append_row(out, text_, key_of_row(head), row_bytes.data(), layout_->payload_bytes());
    ++*records;
    cold_->set_epoch(place, 0);
  }
  return false;
}

void Shard::end_cut() {
  cut_active_ = false;
  copies_ = {};
  copied_ = 0;
}

void Shard::abandon_cut() {
  end_cut();
  for (uint32_t i = 0; i < end_; ++i) {
    RowHeader& head = header(i);
    if (head.live() && head.epoch() != 0) head.set(head.count(), epoch_, true);
  }
  for (uint32_t i = 0; cold_ && i < cold_->end(); ++i)
    if (cold_->in_use(i) && cold_->epoch(i) != 0) cold_->set_epoch(i, epoch_);
}

bool Shard::cut_awaits(uint32_t place) const {
  const bool ahead = cut_active_ && (cut_cursor_ <= cut_end_ || place >= cut_cursor_ - cut_end_);
  const uint32_t epoch = cold_->epoch(place);
  return ahead && epoch != epoch_ && (cut_full_ || epoch == 3 - epoch_);
}

uint32_t Shard::promote(const Key& key) {
  const uint32_t place = cold_ ? cold_->find(key) : ColdRows::kNone;
  if (place == ColdRows::kNone) return kNone;
  thread_local std::string bytes;
  bytes.resize(stride_);
  cold_->read(place, key, bytes.data());
  return install(key, place, bytes.data());
}

uint32_t Shard::install(const Key& key, uint32_t place, const char* bytes) {
  const uint32_t number = make_room(key.hash);
  std::memcpy(row(number), bytes, stride_);  // Its text comes along.
  RowHeader& head = header(number);
  if (cut_awaits(place)) {
    append_record(number, &copies_);
    ++copied_;
  }
  // The row has a new number, which the cut may pass or has passed: it must not be written there again.
  head.set(head.count(), cut_active_ ? epoch_ : cold_->epoch(place), true);
  cold_->erase(key);
  compact_disk();
  return number;
}

void Shard::erase_on_disk(uint32_t place, const char* row) {
  const RowHeader& head = RowLayout::header(row);
  const Key key = key_of_row(head);
  if (cut_awaits(place)) {
    append_row(&copies_, text_, key, row, layout_->payload_bytes());
    ++copied_;
  }
  note_removed(key);
  cold_->erase(key);
  if (text_) drop_text(head.key);
}

void Shard::compact_disk() {
  if (cold_ && !cut_active_) cold_->compact();
}

void Shard::demote(uint32_t number) {
  cold_->add(key(number), row(number), header(number).epoch());
  release(number);
}

std::string Shard::take_removed(int64_t* records) {
  std::string out;
  for (uint64_t id : removed_ids_) append_key(&out, false, {id, {}, 0});
  for (const std::string& text : removed_texts_) append_key(&out, true, {0, text, 0});
  *records += static_cast<int64_t>(removed_ids_.size() + removed_texts_.size());
  removed_ids_.clear();
  removed_texts_.clear();
  return out;
}

void Shard::append_record(uint32_t number, std::string* out) const {
  append_row(out, text_, key(number), row(number), layout_->payload_bytes());
}

void Shard::mark_saved() {
  for (uint32_t i = 0; i < end_; ++i)
    if (header(i).live()) header(i).set(header(i).count(), 0, true);
  if (cold_)
    for (uint32_t i = 0; i < cold_->end(); ++i)
      if (cold_->in_use(i)) cold_->set_epoch(i, 0);
  forget_removals();
  remembers_ = true;
}

void Shard::set_cold(std::unique_ptr<ColdRows> cold) { cold_ = std::move(cold); }

}  // namespace thalweg::embedding
