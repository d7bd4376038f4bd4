// Translates a chain of ops into a loop: registers for values, calls of vector functions for ops without an
// instruction.
//
// The code is a function of (inputs, scalars, out, bytes). Values that are needed after a call have a place in the
// frame, because a call may change every vector register; inputs and scalars are read again from where they are.
#include "compute/elementwise/elementwise_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "compute/elementwise/vector_functions.h"

namespace thalweg {

#if defined(__x86_64__) && defined(__AVX2__)

namespace {

constexpr int kVectorBytes = 32;
// The first entries of the array of scalars that the code reads: masks of the sign and of the other bits, and zero.
enum Constant { kSign, kRest, kZero, kNumConstants };

// Instructions on packed floats (VEX.256.0F), by their opcode.
enum class Packed : uint8_t {
  load = 0x10,
  store = 0x11,
  sqrt = 0x51,
  bit_and = 0x54,
  bit_xor = 0x57,
  add = 0x58,
  mul = 0x59,
  sub = 0x5c,
  div = 0x5e,
  max = 0x5f,
};

// An operand: a vector register, or memory at [base + displacement] or [base + rbx].
struct Operand {
  enum Kind { in_register, in_frame, in_scalars, in_input } kind;
  int number;  // of the register, or of the 32 bytes; not used for an input, whose address is in rax
};

// Writes instructions. The registers that hold addresses: rsp the frame, r13 the scalars, r12 the output, r15 the
// pointers to the inputs, rbx the offset of the current elements and r14 its end.
class Assembler {
 public:
  void bytes(std::initializer_list<int> values) {
    for (int value : values) code_.push_back(static_cast<uint8_t>(value));
  }
  template <typename T>
  void immediate(T value) {
    const auto* from = reinterpret_cast<const uint8_t*>(&value);
    code_.insert(code_.end(), from, from + sizeof value);
  }

  // target = left op right; loads and square roots have no left (-1).
  void packed(Packed op, int target, int left, const Operand& right) {
    const int high_base = right.kind == Operand::in_register ? right.number >= 8 : right.kind == Operand::in_scalars;
    vex(target >= 8, high_base, left < 0 ? 0 : left);
    bytes({static_cast<int>(op)});
    const int field = (target & 7) << 3;
    switch (right.kind) {
      case Operand::in_register:
        return bytes({0xc0 | field | (right.number & 7)});
      case Operand::in_frame:
        bytes({0x84 | field, 0x24});  // [rsp + displacement]
        return immediate<int32_t>(right.number * kVectorBytes);
      case Operand::in_scalars:
        bytes({0x85 | field});  // [r13 + displacement]
        return immediate<int32_t>(right.number * kVectorBytes);
      case Operand::in_input:
        return bytes({0x04 | field, 0x18});  // [rax + rbx]
    }
  }
  void store_to_frame(int source, int slot) { packed(Packed::store, source, -1, {Operand::in_frame, slot}); }
  void store_to_output(int source) {
    vex(source >= 8, true, 0);
    bytes({static_cast<int>(Packed::store), 0x04 | (source & 7) << 3, 0x1c});  // [r12 + rbx]
  }
  void address_of_input(int input) {
    bytes({0x49, 0x8b, 0x87});  // mov rax, [r15 + displacement]
    immediate<int32_t>(input * 8);
  }
  void call(const void* function) {
    bytes({0x48, 0xb8});  // mov rax, function
    immediate(reinterpret_cast<uint64_t>(function));
    bytes({0xff, 0xd0});  // call rax
  }
  void begin(int32_t frame) {
    bytes({0x55, 0x48, 0x89, 0xe5, 0x53});                    // push rbp; mov rbp, rsp; push rbx
    bytes({0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push r12, r13, r14, r15
    bytes({0x48, 0x81, 0xec});                                // sub rsp, frame
    immediate(frame);
    bytes({0x48, 0x83, 0xe4, 0xe0});                          // and rsp, -32
    bytes({0x49, 0x89, 0xff, 0x49, 0x89, 0xf5});              // mov r15, rdi; mov r13, rsi
    bytes({0x49, 0x89, 0xd4, 0x49, 0x89, 0xce, 0x31, 0xdb});  // mov r12, rdx; mov r14, rcx; xor ebx, ebx
    loop_ = code_.size();
  }
  void end() {
    bytes({0x48, 0x83, 0xc3, kVectorBytes, 0x4c, 0x39, 0xf3, 0x0f, 0x82});  // add rbx, 32; cmp rbx, r14; jb
    immediate(static_cast<int32_t>(loop_ - (code_.size() + 4)));
    bytes({0xc5, 0xf8, 0x77, 0x48, 0x8d, 0x65, 0xd8});        // vzeroupper; lea rsp, [rbp - 40]
    bytes({0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c});  // pop r15, r14, r13, r12
    bytes({0x5b, 0x5d, 0xc3});                                // pop rbx, rbp; ret
  }
  const std::vector<uint8_t>& code() const { return code_; }

 private:
  // The prefix of an instruction with a left operand; the high bits of the target and of the base come inverted.
  void vex(bool high_target, bool high_base, int left) {
    bytes({0xc4, (high_target ? 0 : 0x80) | 0x40 | (high_base ? 0 : 0x20) | 1, (~left & 15) << 3 | 4});
  }

  std::vector<uint8_t> code_;
  size_t loop_ = 0;
};

// Goes through the ops, and knows in which register each value is.
class Translation {
 public:
  Translation(int num_inputs, std::span<const ElementwiseCode::Op> ops, std::span<const char> scalar)
      : num_inputs_(num_inputs), ops_(ops), scalar_(scalar), values_(num_inputs + ops.size()) {
    for (int i = 0; i < static_cast<int>(ops.size()); ++i) {
      if (scalar[num_inputs + i]) continue;
      values_[ops[i].left].last = i;
      if (ops[i].right >= 0) values_[ops[i].right].last = i;
    }
  }

  // False if an op has no vector form.
  bool run() {
    out_.begin(static_cast<int32_t>(ops_.size()) * kVectorBytes);
    for (now_ = 0; now_ < static_cast<int>(ops_.size()); ++now_)
      if (!scalar_[num_inputs_ + now_] && !translate(ops_[now_])) return false;
    out_.store_to_output(values_.back().in);
    out_.end();
    return true;
  }
  const std::vector<uint8_t>& code() const { return out_.code(); }

 private:
  static constexpr int kRegisters = 14, kScratch = 15;
  struct Value {
    int last = -1;        // the op that reads it last
    int in = -1;          // the register that it is in, or -1
    bool stored = false;  // also in the frame
  };

  bool translate(const ElementwiseCode::Op& op) {
    const auto binary = [&](Packed instruction) { return compute(instruction, in_register(op.left), op.right); };
    if (op.name == "AddV2" || op.name == "Add") return binary(Packed::add);
    if (op.name == "Sub") return binary(Packed::sub);
    if (op.name == "Mul") return binary(Packed::mul);
    if (op.name == "RealDiv") return binary(Packed::div);
    if (op.name == "Square") return compute(Packed::mul, in_register(op.left), op.left);
    if (op.name == "Sqrt") return compute(Packed::sqrt, -1, op.left);
    if (op.name == "Abs") return compute(Packed::bit_and, in_register(op.left), constant(kRest));
    if (op.name == "Neg") return compute(Packed::bit_xor, in_register(op.left), constant(kSign));
    if (op.name == "Relu") {
      // The second operand of max is the result where neither is greater: NaN stays.
      out_.packed(Packed::load, kScratch, -1, constant(kZero));
      return compute(Packed::max, kScratch, op.left);
    }
    const VectorFunction function = vector_function(op.name);
    if (op.right < 0 ? function.unary == nullptr : function.binary == nullptr) return false;
    const void* address =
        op.right < 0 ? reinterpret_cast<const void*>(function.unary) : reinterpret_cast<const void*>(function.binary);
    call(op, address);
    return true;
  }

  static Operand constant(Constant which) { return {Operand::in_scalars, which}; }
  int result() const { return num_inputs_ + now_; }
  int slot_of(int value) const { return value - num_inputs_; }

  // Where an instruction can read a value; may load the address of an input, for the very next instruction.
  Operand operand(int value) {
    if (values_[value].in >= 0) return {Operand::in_register, values_[value].in};
    if (scalar_[value]) return {Operand::in_scalars, kNumConstants + value};
    if (value >= num_inputs_) return {Operand::in_frame, slot_of(value)};
    out_.address_of_input(value);
    return {Operand::in_input, 0};
  }

  // Loads the value unless it is in a register; keeps it there for later readers.
  int in_register(int value) {
    if (values_[value].in >= 0) return values_[value].in;
    const int found = free_register();
    out_.packed(Packed::load, found, -1, operand(value));
    hold(found, value);
    return found;
  }

  bool compute(Packed instruction, int left, int right) {
    // An input that is read again is worth a register.
    if (right < num_inputs_ && !scalar_[right] && values_[right].last > now_) in_register(right);
    return compute(instruction, left, operand(right));
  }
  bool compute(Packed instruction, int left, const Operand& right) {
    release();  // The result may take the register of an operand that no later op reads.
    const int target = free_register();
    out_.packed(instruction, target, left, right);
    hold(target, result());
    return true;
  }

  void call(const ElementwiseCode::Op& op, const void* function) {
    for (int r = 0; r < kRegisters; ++r)
      if (holds_[r] >= 0 && values_[holds_[r]].last > now_) store(r);
    const Operand left = operand(op.left);
    if (op.right < 0) {
      out_.packed(Packed::load, 0, -1, left);
    } else {
      // The left operand is loaded after the right one has left register 0.
      out_.packed(Packed::load, kScratch, -1, left);
      out_.packed(Packed::load, 1, -1, operand(op.right));
      out_.packed(Packed::load, 0, -1, {Operand::in_register, kScratch});
    }
    for (int r = 0; r < kRegisters; ++r) drop(r);
    out_.call(function);
    hold(0, result());
  }

  void store(int r) {
    Value& value = values_[holds_[r]];
    if (holds_[r] < num_inputs_ || scalar_[holds_[r]] || value.stored) return;
    out_.store_to_frame(r, slot_of(holds_[r]));
    value.stored = true;
  }
  void hold(int r, int value) {
    holds_[r] = value;
    values_[value].in = r;
  }
  void drop(int r) {
    if (holds_[r] >= 0) values_[holds_[r]].in = -1;
    holds_[r] = -1;
  }
  // Gives up registers with values that no later op reads.
  void release() {
    for (int r = 0; r < kRegisters; ++r)
      if (holds_[r] >= 0 && values_[holds_[r]].last <= now_) drop(r);
  }
  int free_register() {
    for (int r = 0; r < kRegisters; ++r)
      if (holds_[r] < 0) return r;
    // Spills the value that is needed last to the frame.
    int found = -1;
    for (int r = 0; r < kRegisters; ++r) {
      const int value = holds_[r];
      if (value == ops_[now_].left || value == ops_[now_].right) continue;
      if (found < 0 || values_[value].last > values_[holds_[found]].last) found = r;
    }
    store(found);
    drop(found);
    return found;
  }

  const int num_inputs_;
  const std::span<const ElementwiseCode::Op> ops_;
  const std::span<const char> scalar_;
  std::vector<Value> values_;
  std::vector<int> holds_ = std::vector<int>(kRegisters, -1);
  int now_ = 0;
  Assembler out_;
};

}  // namespace

std::unique_ptr<ElementwiseCode> ElementwiseCode::compile(int num_inputs, std::span<const Op> ops,
                                                          std::span<const char> scalar) {
  if (scalar.back()) return nullptr;
  Translation translation(num_inputs, ops, scalar);
  if (!translation.run()) return nullptr;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t size = (translation.code().size() + page - 1) / page * page;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, translation.code().data(), translation.code().size());
  std::unique_ptr<ElementwiseCode> code(new ElementwiseCode(memory, size, static_cast<int>(scalar.size())));
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) return nullptr;
  return code;
}

ElementwiseCode::~ElementwiseCode() { munmap(memory_, bytes_); }

void ElementwiseCode::run(const float* const* inputs, const float* scalars, float* out, int64_t n) const {
  if (n <= 0) return;
  std::vector<Vector8> vectors(kNumConstants + num_values_);
  const auto fill = [&](int place, float value) {
    for (int i = 0; i < kWidth; ++i) vectors[place][i] = value;
  };
  fill(kSign, __builtin_bit_cast(float, 0x80000000u));
  fill(kRest, __builtin_bit_cast(float, 0x7fffffffu));
  for (int v = 0; v < num_values_; ++v) fill(kNumConstants + v, scalars[v]);
  using Function = void (*)(const float* const*, const Vector8*, float*, int64_t);
  reinterpret_cast<Function>(memory_)(inputs, vectors.data(), out, n * static_cast<int64_t>(sizeof(float)));
}

#else

std::unique_ptr<ElementwiseCode> ElementwiseCode::compile(int, std::span<const Op>, std::span<const char>) {
  return nullptr;
}
ElementwiseCode::~ElementwiseCode() = default;
void ElementwiseCode::run(const float* const*, const float*, float*, int64_t) const {}

#endif

}  // namespace thalweg
