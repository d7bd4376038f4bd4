// cache: elements kept after they have been computed once, in memory or in a file.
//
// The first pass that reaches the end of the input fills the cache; iterators made later read it. The file is written
// under another name and renamed when it is complete, so that there never is half a cache. One iterator at a time
// writes it: another one, of this program or of another, fails with AlreadyExistsError; the lock of a program that has
// died is void. A cache of another file system (a path with a scheme) is written locally, and copied there when it is
// complete; the lock then holds for the programs of a user on this machine. Its content is: a line that identifies the
// format, then each element as its length (8 bytes), the masked CRC-32C of its bytes (4) and the bytes.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "data/dataset.h"
#include "io/crc32c.h"
#include "io/input_stream.h"
#include "io/remote_files.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

constexpr std::string_view kMagic = "thalweg cache 1\n";

// The elements, once they are all there.
struct Memory {
  std::mutex mutex;
  std::shared_ptr<const std::vector<Element>> elements;

  std::shared_ptr<const std::vector<Element>> get() {
    std::lock_guard lock(mutex);
    return elements;
  }
  void set(std::vector<Element> all) {
    std::lock_guard lock(mutex);
    if (!elements) elements = std::make_shared<const std::vector<Element>>(std::move(all));
  }
};

class MemoryCache final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(const MemoryCache& dataset, const Making& making) : memory(dataset.memory_), cached(memory->get()) {
      if (!cached) input = dataset.input()->iterate(making);
    }
    Pulled next(Pull& pull, Element& out) override {
      if (cached) {
        if (at >= cached->size()) return Pulled::end;
        out = (*cached)[at++];
        return Pulled::element;
      }
      if (!input) return Pulled::end;
      Pulled pulled = input->next(pull, out);
      if (pulled == Pulled::element) {
        gathered.push_back(out);
      } else if (pulled == Pulled::end) {
        memory->set(std::move(gathered));
        input.reset();
      }
      return pulled;
    }
    void save(StateWriter& out) override {
      out.tag("CacheDataset");
      out.integer(cached != nullptr);
      out.integer(static_cast<int64_t>(at));
      const std::vector<Element>& all = cached ? *cached : gathered;
      out.integer(static_cast<int64_t>(all.size()));
      for (const Element& element : all) out.element(element);
      out.integer(input != nullptr);
      if (input) input->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("CacheDataset");
      bool whole = in.integer() != 0;
      at = static_cast<size_t>(std::max<int64_t>(0, in.integer()));
      std::vector<Element> all;
      for (int64_t n = in.count(); n > 0; --n) all.push_back(in.element());
      if (whole) {
        memory->set(std::move(all));
        cached = memory->get();
      } else {
        cached = nullptr;
        gathered = std::move(all);
      }
      if (in.integer() == 0)
        input.reset();
      else if (input)
        input->restore(in);
      else
        fail(Code::failed_precondition, "the cache has been filled since the iterator's position was saved");
    }
    const std::shared_ptr<Memory> memory;
    std::shared_ptr<const std::vector<Element>> cached;
    size_t at = 0;
    std::unique_ptr<DatasetIterator> input;
    std::vector<Element> gathered;
  };
  const std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
};

// Where the files are that belong to a cache while it is written, as the beginning of their paths: beside it, or in the
// folder for temporary files if it is elsewhere.
std::string local_prefix(const std::string& cache) {
  if (remote_files_of(cache) == nullptr) return cache;
  const std::string name = cat("thalweg-", getuid(), "-", std::hash<std::string>{}(cache), ".cache");
  return std::filesystem::temp_directory_path() / name;
}

bool exists(const std::string& cache) {
  if (const RemoteFiles* remote = remote_files_of(cache)) return remote->exists(cache);
  return access(cache.c_str(), R_OK) == 0;
}

// The right to write a cache file: a lock on a file beside it.
class WriterLock {
 public:
  explicit WriterLock(const std::string& cache) : path_(local_prefix(cache) + ".lockfile") {
    file_ = open(path_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (file_ < 0) fail(Code::unavailable, "the lock ", path_, " of a cache cannot be written");
    if (flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    close(file_);
    fail(Code::already_exists,
         "There appears to be a concurrent caching iterator running: another iterator, of this "
         "program or of another, is writing the cache ",
         cache, " and holds the lock ", path_,
         ". Let it reach the end of its input first, or give each iterator a cache of its own");
  }
  ~WriterLock() {
    unlink(path_.c_str());
    flock(file_, LOCK_UN);  // A child that was forked meanwhile holds the lock, too.
    close(file_);
  }
  WriterLock(const WriterLock&) = delete;

 private:
  const std::string path_;
  int file_;
};

class FileWriter {
 public:
  explicit FileWriter(std::string path) : path_(std::move(path)), lock_(path_) {
    static std::atomic<int64_t> number{0};
    temporary_ = cat(local_prefix(path_), ".tmp-", getpid(), "-", number.fetch_add(1));
    file_.open(temporary_, std::ios::binary | std::ios::trunc);
    check();
    file_.write(kMagic.data(), kMagic.size());
  }
  ~FileWriter() {
    if (temporary_.empty()) return;
    file_.close();
    std::remove(temporary_.c_str());
  }
  void add(const Element& element) {
    StateWriter bytes;
    bytes.element(element);
    std::string text = bytes.take();
    uint64_t size = text.size();
    uint32_t crc = mask_crc(crc32c(text.data(), text.size()));
    file_.write(reinterpret_cast<const char*>(&size), sizeof size);
    file_.write(reinterpret_cast<const char*>(&crc), sizeof crc);
    file_.write(text.data(), static_cast<std::streamsize>(text.size()));
    check();
  }
  void finish() {
    file_.close();
    check();
    if (const RemoteFiles* remote = remote_files_of(path_)) return remote->upload(temporary_, path_);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0)
      fail(Code::unavailable, "the cache file ", path_, " cannot be put in its place");
    temporary_.clear();
  }

 private:
  void check() const {
    if (!file_) fail(Code::unavailable, "the cache file ", temporary_, " cannot be written");
  }
  std::string path_, temporary_;
  WriterLock lock_;
  std::ofstream file_;
};

class FileCache final : public UnaryDataset {
 public:
  FileCache(Signature signature, DatasetPtr input, const std::string& path)
      : UnaryDataset(std::move(signature), std::move(input)),
        path_((remote_files_of(path) != nullptr ? path : local_path(path)) + ".cache") {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(const FileCache& dataset, const Making& making)
        : dataset(dataset.input()), path(dataset.path_), types(dataset.signature().types), making(making) {
      if (!exists(path)) input = this->dataset->iterate(making);
    }
    Pulled next(Pull& pull, Element& out) override {
      if (ended) return Pulled::end;
      if (!input) return read(out);
      if (!writer && !broken) writer = std::make_unique<FileWriter>(path);
      Pulled pulled = input->next(pull, out);
      if (pulled == Pulled::element && writer) writer->add(out);
      if (pulled == Pulled::end) {
        ended = true;
        if (writer) writer->finish();
        writer.reset();
      }
      return pulled;
    }
    void open() {
      stream = std::make_unique<InputStream>(path);
      if (stream->peek(kMagic.size()) != kMagic)
        fail(Code::data_loss, path, " is not a cache, or was written by another version");
      stream->advance(kMagic.size());
    }
    Pulled read(Element& out) {
      if (!stream) open();
      std::string_view head = stream->peek(12);
      if (head.empty()) {
        ended = true;
        return Pulled::end;
      }
      uint64_t size;
      uint32_t crc;
      if (head.size() < 12) fail(Code::data_loss, "the cache ", path, " ends too early");
      std::memcpy(&size, head.data(), 8);
      std::memcpy(&crc, head.data() + 8, 4);
      stream->advance(12);
      std::string text;
      if (stream->append_to(text, size, [](std::string_view) {}) != size ||
          unmask_crc(crc) != crc32c(text.data(), text.size()))
        fail(Code::data_loss, "the cache ", path, " is damaged");
      out = StateReader(text).element();
      require(out.size() == types.size(), "the cache ", path, " has elements of ", out.size(), " components, not of ",
              types.size());
      for (size_t i = 0; i < types.size(); ++i)
        require(out[i].dtype() == types[i], "the cache ", path, " has type ", out[i].dtype(), " in component ", i,
                ", not ", types[i]);
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("CacheDataset");
      out.integer(ended);
      out.integer(stream ? static_cast<int64_t>(stream->position()) : -1);
      out.integer(input != nullptr);
      if (input) input->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("CacheDataset");
      ended = in.integer() != 0;
      int64_t position = in.integer();
      if (in.integer() != 0) {
        // The elements written before are lost: this pass goes on without a cache.
        input = dataset->iterate(making);
        input->restore(in);
        broken = true;
        writer.reset();
        return;
      }
      input.reset();
      if (position >= 0) {
        open();
        stream->seek(static_cast<uint64_t>(position));
      }
    }
    const DatasetPtr dataset;
    const std::string path;
    const std::vector<DType> types;
    const Making making;
    std::unique_ptr<DatasetIterator> input;  // while there is no cache
    std::unique_ptr<FileWriter> writer;
    std::unique_ptr<InputStream> stream;
    bool ended = false, broken = false;
  };
  const std::string path_;
};

void cache(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  const std::string& path = string_input(ctx, 1, "filename");
  if (path.empty())
    set_dataset<MemoryCache>(ctx, std::move(signature), std::move(input));
  else
    set_dataset<FileCache>(ctx, std::move(signature), std::move(input), path);
}

REGISTER(kernel("CacheDataset").function<cache>());

}  // namespace
}  // namespace thalweg
