// ColdRows on a plain file, with pread and pwrite.
#include "embedding/cold_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/crc32c.h"
#include "io/files.h"

namespace thalweg::embedding {
namespace {

// Opens a file that has no name any more; returns the path it had, for messages.
std::string open_unnamed(const std::string& folder, int* fd) {
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail_with_errno(errno, "make a folder for rows", folder);
  std::string path = folder + "/rows-XXXXXX";
  *fd = mkostemp(path.data(), O_CLOEXEC);
  if (*fd < 0) fail_with_errno(errno, "make a file for rows", path);
  unlink(path.c_str());
  return path;
}

}  // namespace

ColdRows::ColdRows(const std::string& folder, bool text, size_t row_bytes)
    : path_(open_unnamed(folder, &fd_)),
      text_(text),
      row_bytes_(row_bytes),
      record_(row_bytes + 8),
      keys_(16, 0),
      places_(16, kNone) {}

ColdRows::~ColdRows() {
  for (uint32_t place = 0; text_ && place < end_; ++place)
    if (in_use(place)) delete[] reinterpret_cast<char*>(texts_[place]);
  close(fd_);
}

bool ColdRows::has_key(size_t slot, const Key& key) const {
  if (keys_[slot] != key.id) return false;
  if (!text_) return true;
  RowHeader header{texts_[places_[slot]], 0, 0};
  return text_of(header) == key.text;
}

size_t ColdRows::slot_of(const Key& key) const {
  size_t at = home(key.id);
  while (places_[at] != kNone && !has_key(at, key))
    if (++at == keys_.size()) at = 0;
  return at;
}

uint32_t ColdRows::find(const Key& key) const { return places_[slot_of(key)]; }

void ColdRows::rebuild(size_t slots) {
  std::vector<uint64_t> keys(slots, 0);
  std::vector<uint32_t> places(slots, kNone);
  keys.swap(keys_);
  places.swap(places_);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (places[i] == kNone) continue;
    size_t at = home(keys[i]);
    while (places_[at] != kNone)
      if (++at == keys_.size()) at = 0;
    keys_[at] = keys[i];
    places_[at] = places[i];
  }
}

// The place is part of the checksum: a record that turns up elsewhere is not taken for the one that belongs there.
uint32_t ColdRows::checksum(uint32_t place, const char* row) const {
  return mask_crc(crc32c(&place, sizeof(place), crc32c(row, row_bytes_)));
}

void ColdRows::transfer(ssize_t (*move)(int, const iovec*, int, off_t), const char* what, uint32_t place, char* row,
                        uint32_t (&end)[2]) const {
  iovec pieces[2] = {{row, row_bytes_}, {end, sizeof(end)}};
  auto at = static_cast<off_t>(static_cast<size_t>(place) * record_);
  for (int first = 0; first < 2;) {
    ssize_t n = move(fd_, pieces + first, 2 - first, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_with_errno(errno, what, path_);
    if (n == 0) fail(Code::data_loss, "the file with rows of an embedding table, ", path_, ", ends before row ", place);
    at += n;
    for (auto left = static_cast<size_t>(n); left > 0;) {
      const size_t part = std::min(left, pieces[first].iov_len);
      pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + part;
      pieces[first].iov_len -= part;
      left -= part;
      if (pieces[first].iov_len == 0) ++first;
    }
  }
}

void ColdRows::write(uint32_t place, const char* row) {
  uint32_t end[2] = {checksum(place, row), place};
  transfer(pwritev, "write rows of an embedding table", place, const_cast<char*>(row), end);
}

void ColdRows::read(uint32_t place, char* row) const {
  uint32_t end[2];
  transfer(preadv, "read rows of an embedding table", place, row, end);
  check(place, row, end);
}

void ColdRows::read(uint32_t place, const Key& key, char* row) const {
  read(place, row);
  check_key(place, key, row);
}

bool ColdRows::read_at_once(uint32_t place, const Key& key, char* row) const {
  uint32_t end[2];
  const iovec pieces[2] = {{row, row_bytes_}, {end, sizeof(end)}};
  const auto at = static_cast<off_t>(static_cast<size_t>(place) * record_);
  // File systems that cannot tell refuse, too.
  if (preadv2(fd_, pieces, 2, at, RWF_NOWAIT) != static_cast<ssize_t>(record_)) return false;
  check(place, row, end);
  check_key(place, key, row);
  return true;
}

void ColdRows::check(uint32_t place, const char* row, const uint32_t (&end)[2]) const {
  if (end[1] != place || end[0] != checksum(place, row))
    fail(Code::data_loss, "row ", place, " of an embedding table is damaged in the file ", path_,
         ": its checksum does not fit");
}

void ColdRows::check_key(uint32_t place, const Key& key, const char* row) const {
  if (RowLayout::header(row).key != (text_ ? texts_[place] : key.id))
    fail(Code::data_loss, "row ", place, " of an embedding table in the file ", path_, " is that of another key");
}

void ColdRows::prefetch(uint32_t place) const {
  posix_fadvise(fd_, static_cast<off_t>(static_cast<size_t>(place) * record_), static_cast<off_t>(record_),
                POSIX_FADV_WILLNEED);
}

void ColdRows::add(const Key& key, const char* row, uint32_t epoch) {
  if (static_cast<size_t>(live_ + 1) * 10 > keys_.size() * 7) rebuild(keys_.size() + keys_.size() / 3 + 1);
  ++version_;
  const uint32_t place = free_.empty() ? end_ : free_.back();
  write(place, row);
  if (free_.empty()) {
    ++end_;
    epochs_.push_back(kFree);
    if (text_) texts_.push_back(0);
  } else {
    free_.pop_back();
  }
  epochs_[place] = static_cast<uint8_t>(epoch);
  if (text_) texts_[place] = RowLayout::header(row).key;
  const size_t slot = slot_of(key);
  keys_[slot] = key.id;
  places_[slot] = place;
  ++live_;
}

void ColdRows::erase(const Key& key) {
  size_t at = slot_of(key);
  if (places_[at] == kNone) return;
  ++version_;
  epochs_[places_[at]] = kFree;
  free_.push_back(places_[at]);
  --live_;
  for (size_t next = at;;) {
    if (++next == keys_.size()) next = 0;
    if (places_[next] == kNone) break;
    size_t wanted = home(keys_[next]);
    bool stays = at <= next ? (at < wanted && wanted <= next) : (at < wanted || wanted <= next);
    if (stays) continue;
    keys_[at] = keys_[next];
    places_[at] = places_[next];
    at = next;
  }
  places_[at] = kNone;
}

void ColdRows::compact() {
  if (end_ < 1024 || live_ * 2 > end_ || live_ > compact_below_) return;
  ++version_;
  std::vector<size_t> slot_of_place(end_, keys_.size());
  for (size_t i = 0; i < places_.size(); ++i)
    if (places_[i] != kNone) slot_of_place[places_[i]] = i;
  std::string row(row_bytes_, '\0');
  uint32_t to = 0;
  uint32_t from = end_;
  try {
    while (true) {
      while (to < from && in_use(to)) ++to;
      while (from > to && !in_use(from - 1)) --from;
      if (to >= from) break;
      read(from - 1, row.data());
      write(to, row.data());
      epochs_[to] = epochs_[from - 1];
      epochs_[from - 1] = kFree;
      if (text_) texts_[to] = texts_[from - 1];
      places_[slot_of_place[from - 1]] = to;
    }
  } catch (const Error&) {
    compact_below_ = live_ / 2;
  }
  end_ = from;
  epochs_.resize(end_);
  if (text_) texts_.resize(end_);
  free_.clear();
  for (uint32_t place = to; place < end_; ++place)
    if (!in_use(place)) free_.push_back(place);
  // A file that stays longer than needed is no harm.
  [[maybe_unused]] int unused = ftruncate(fd_, static_cast<off_t>(static_cast<size_t>(end_) * record_));
}

}  // namespace thalweg::embedding
