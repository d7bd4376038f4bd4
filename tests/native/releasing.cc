// Releasing needs no memory: what is destroyed when there is none left does not throw.
#include <cstdlib>
#include <new>
#include <vector>

#include "check.h"
#include "data/background.h"
#include "memory/shared_arena.h"
#include "resource/queue_fifo.h"
#include "session.h"
#include "tensor/tensor.h"

namespace {

thread_local bool exhausted = false;

struct Exhausted {
  Exhausted() { exhausted = true; }
  ~Exhausted() { exhausted = false; }
};

}  // namespace

// Replaces that of the whole test program.
void* operator new(size_t bytes) {
  void* memory = exhausted ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace {

using namespace thalweg;

// Tensors of many sizes, so that lists of free blocks have to grow.
std::vector<Tensor> many_tensors() {
  std::vector<Tensor> tensors;
  for (int64_t size : {1, 100, 3000, 9000, 12000, 15000, 20000, 40000})
    for (int i = 0; i < 300; ++i) tensors.emplace_back(DType::float32, Shape{size + i});
  return tensors;
}

TEST(tensors_are_released_without_memory) {
  std::vector<Tensor> tensors = many_tensors();
  const Exhausted none;
  tensors.clear();
}

TEST(blocks_of_the_shared_arena_are_given_back_without_memory) {
  SharedArena& arena = *SharedArena::get();
  std::vector<std::pair<void*, size_t>> blocks;
  for (size_t i = 0; i < 200; ++i) blocks.emplace_back(arena.take(70'001 + 4096 * i), 70'001 + 4096 * i);
  const Exhausted none;
  for (auto [block, bytes] : blocks)
    if (block != nullptr) arena.give(block, bytes);
}

TEST(a_full_queue_is_destroyed_without_memory) {
  Queue::Options options;
  options.dtypes = {DType::float32};
  auto queue = std::make_shared<FifoQueue>(options);
  for (Tensor& tensor : many_tensors()) CHECK(queue->try_enqueue(std::span<const Tensor>(&tensor, 1)));
  const Exhausted none;
  queue.reset();
}

TEST(sessions_and_background_work_end_without_memory) {
  auto session = std::make_unique<Session>(std::vector<std::string>{"/job:localhost/replica:0/task:0/device:CPU:0"});
  auto background = std::make_shared<Background>();
  background->set_body([](Step&) { return false; });
  const Exhausted none;
  background->close();
  background.reset();
  session.reset();
}

}  // namespace
