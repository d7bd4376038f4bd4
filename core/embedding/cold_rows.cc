// ColdRows on a plain file, with pread and pwrite.
#include "embedding/cold_rows.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/crc32c.h"
#include "io/files.h"

namespace thalweg::embedding {
namespace {

// Of a block, and records: what is written at once. Each shard of a table has one in memory.
constexpr size_t kBlockBytes = 32 << 10, kMostInBlock = 64;
// A block is written again when at least one in so many of its places is free.
constexpr uint32_t kRoom = 2;

// Both move exactly so many bytes, and return 0, an errno, or -1 at the end of the file.
template <typename Move, typename Bytes>
int move_bytes(const Move& move, int fd, Bytes* bytes, size_t size, size_t at) {
  while (size > 0) {
    const ssize_t n = move(fd, bytes, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return -1;
    bytes += n;
    at += static_cast<size_t>(n);
    size -= static_cast<size_t>(n);
  }
  return 0;
}
int read_bytes(int fd, char* to, size_t size, size_t at) { return move_bytes(pread, fd, to, size, at); }
int write_bytes(int fd, const char* from, size_t size, size_t at) {
  const int failed = move_bytes(pwrite, fd, from, size, at);
  return failed < 0 ? EIO : failed;
}

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
      block_(static_cast<uint32_t>(std::clamp<size_t>(kBlockBytes / record_, 1, kMostInBlock))),
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

void ColdRows::write_record(char* record, uint32_t place, const char* row) const {
  const uint32_t end[2] = {checksum(place, row), place};
  std::memcpy(record, row, row_bytes_);
  std::memcpy(record + row_bytes_, end, sizeof(end));
}

char* ColdRows::scratch() const {
  thread_local std::string record;
  if (record.size() < record_) record.resize(record_);
  return record.data();
}

void ColdRows::read(uint32_t place, char* row) const {
  const char* record = open_record(place);
  if (record == nullptr) {
    char* to = scratch();
    const int failed = read_bytes(fd_, to, record_, static_cast<size_t>(place) * record_);
    if (failed > 0) fail_with_errno(failed, "read rows of an embedding table", path_);
    if (failed < 0)
      fail(Code::data_loss, "the file with rows of an embedding table, ", path_, ", ends before row ", place);
    record = to;
  }
  check(place, record);
  std::memcpy(row, record, row_bytes_);
}

void ColdRows::read(uint32_t place, const Key& key, char* row) const {
  read(place, row);
  check_key(place, key, row);
}

bool ColdRows::read_at_once(uint32_t place, const Key& key, char* row) const {
  const char* record = open_record(place);
  if (record == nullptr) {
    char* to = scratch();
    const iovec piece = {to, record_};
    const auto at = static_cast<off_t>(static_cast<size_t>(place) * record_);
    // File systems that cannot tell refuse, too.
    if (preadv2(fd_, &piece, 1, at, RWF_NOWAIT) != static_cast<ssize_t>(record_)) return false;
    record = to;
  }
  check(place, record);
  std::memcpy(row, record, row_bytes_);
  check_key(place, key, row);
  return true;
}

void ColdRows::check(uint32_t place, const char* record) const {
  uint32_t end[2];
  std::memcpy(end, record + row_bytes_, sizeof(end));
  if (end[1] != place || end[0] != checksum(place, record))
    fail(Code::data_loss, "row ", place, " of an embedding table is damaged in the file ", path_,
         ": its checksum does not fit");
}

void ColdRows::check_key(uint32_t place, const Key& key, const char* row) const {
  if (RowLayout::header(row).key != (text_ ? texts_[place] : key.id))
    fail(Code::data_loss, "row ", place, " of an embedding table in the file ", path_, " is that of another key");
}

void ColdRows::prefetch(uint32_t place) const {
  if (open_record(place) != nullptr) return;
  posix_fadvise(fd_, static_cast<off_t>(static_cast<size_t>(place) * record_), static_cast<off_t>(record_),
                POSIX_FADV_WILLNEED);
}

bool ColdRows::read_block(uint32_t block) {
  open_.assign(static_cast<size_t>(block_) * record_, '\0');
  const uint32_t begin = block * block_, places = std::min(block_, end_ - begin);
  // A file that is too short has records without checksums there, whose readers learn of it.
  return used_in_block_[block] == 0 ||
         read_bytes(fd_, open_.data(), places * record_, static_cast<size_t>(begin) * record_) <= 0;
}

void ColdRows::close_block() {
  if (open_block_ == kNone) return;
  const size_t begin = static_cast<size_t>(open_block_) * block_;
  const size_t places = std::min<size_t>(block_, end_ - begin);
  const int failed = write_bytes(fd_, open_.data(), places * record_, begin * record_);
  if (failed != 0) fail_with_errno(failed, "write rows of an embedding table", path_);
  open_block_ = kNone;
}

void ColdRows::open_next_block() {
  close_block();
  const auto blocks = static_cast<uint32_t>(used_in_block_.size());
  const auto emptiest = std::min_element(used_in_block_.begin(), used_in_block_.end());
  auto best = static_cast<uint32_t>(emptiest - used_in_block_.begin());
  // To read a block and to write it costs as much for few new rows as for many. The last one may have an end.
  const uint32_t end_block = end_ / block_;
  const bool is_worth_it = best < blocks && *emptiest <= block_ - std::max<uint32_t>(block_ / kRoom, 1);
  if (!is_worth_it) best = end_block;
  if (best < blocks && !read_block(best)) best = (end_ + block_ - 1) / block_;
  if (best >= blocks) {
    used_in_block_.resize(best + 1, 0);
    open_.assign(static_cast<size_t>(block_) * record_, '\0');
  }
  open_block_ = best;
  open_next_ = best * block_;
}

uint32_t ColdRows::free_place() {
  for (;;) {
    if (open_block_ != kNone) {
      const uint32_t limit = (open_block_ + 1) * block_;
      while (open_next_ < std::min(limit, end_) && in_use(open_next_)) ++open_next_;
      if (open_next_ < limit) break;
    }
    open_next_block();
  }
  return open_next_;
}

void ColdRows::add(const Key& key, const char* row, uint32_t epoch) {
  if (static_cast<size_t>(live_ + 1) * 10 > keys_.size() * 7) rebuild(keys_.size() + keys_.size() / 3 + 1);
  const uint32_t place = free_place();
  if (place >= end_) {
    epochs_.resize(place + 1, kFree);
    if (text_) texts_.resize(place + 1, 0);
    end_ = place + 1;
  }
  ++version_;
  write_record(open_record(place), place, row);
  epochs_[place] = static_cast<uint8_t>(epoch);
  ++used_in_block_[open_block_];
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
  --used_in_block_[places_[at] / block_];
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

void ColdRows::move_record(uint32_t from, uint32_t to) {
  std::string row(row_bytes_, '\0');
  read(from, row.data());
  char* record = scratch();
  write_record(record, to, row.data());
  const int failed = write_bytes(fd_, record, record_, static_cast<size_t>(to) * record_);
  if (failed != 0) fail_with_errno(failed, "write rows of an embedding table", path_);
}

void ColdRows::compact() {
  if (end_ < 1024 || live_ * 2 > end_ || live_ > compact_below_) return;
  try {
    close_block();
  } catch (const Error&) {
    compact_below_ = live_ / 2;
    return;
  }
  ++version_;
  std::vector<size_t> slot_of_place(end_, keys_.size());
  for (size_t i = 0; i < places_.size(); ++i)
    if (places_[i] != kNone) slot_of_place[places_[i]] = i;
  uint32_t to = 0;
  uint32_t from = end_;
  try {
    while (true) {
      while (to < from && in_use(to)) ++to;
      while (from > to && !in_use(from - 1)) --from;
      if (to >= from) break;
      move_record(from - 1, to);
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
  used_in_block_.assign((end_ + block_ - 1) / block_, 0);
  for (uint32_t place = 0; place < end_; ++place) used_in_block_[place / block_] += in_use(place) ? 1 : 0;
  // A file that stays longer than needed is no harm.
  [[maybe_unused]] int unused = ftruncate(fd_, static_cast<off_t>(static_cast<size_t>(end_) * record_));
}

}  // namespace thalweg::embedding
