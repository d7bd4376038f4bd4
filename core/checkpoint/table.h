// Sorted tables in LevelDB's file format: the index of a checkpoint. Keys in order, in blocks that share prefixes, each
// with a checksum; then a block with the places of the blocks, and a footer.
//
// Both sides work in memory: an index has some hundred bytes per tensor. The writer lays the bytes out as TensorFlow's
// does (block size, restarts, shortened separators, no compression). The reader checks all of them when made.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thalweg {

class TableWriter {
 public:
  // Keys must come in increasing order.
  void add(std::string_view key, std::string_view value);
  // The bytes of the file. Nothing can be added afterwards.
  std::string finish();

 private:
  struct Block {
    explicit Block(int restart_interval) : interval(restart_interval) {}
    void add(std::string_view key, std::string_view value);
    size_t size() const { return bytes.size() + 4 * restarts.size() + 4; }
    bool empty() const { return bytes.empty(); }
    std::string finish();
    int interval;
    int since_restart = 0;
    std::string bytes;
    std::string last_key;
    std::vector<uint32_t> restarts{0};
  };
  std::string append_block(std::string contents);
  void flush();

  std::string file_;
  Block data_{16};
  Block index_{1};
  std::string last_key_;
  std::string pending_handle_;  // Of a block whose separator waits for the first key of the next one.
};

class Table {
 public:
  // `name` is for messages. Throws DataLoss for anything that is not a whole, intact table.
  Table(std::string file, const std::string& name);
  // The value of a key, or a view without data.
  std::string_view find(std::string_view key) const;
  const std::vector<std::pair<std::string, std::string_view>>& rows() const { return rows_; }

 private:
  std::string file_;
  std::vector<std::pair<std::string, std::string_view>> rows_;
};

}  // namespace thalweg
