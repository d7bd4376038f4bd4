// Reading and writing elements that are narrower than lanes, with AVX2.
#include "code/emitter_avx2.h"

namespace thalweg::code {
namespace {

constexpr Vex kExtractHigh{1, 3, 0x39};
Vex half_of(uint8_t prefix, uint8_t map, uint8_t opcode) { return {prefix, map, opcode, false, true}; }

}  // namespace

bool EmitterAvx2::widen(const Instruction& i) {
  if (i.immediate == kToHalf) {
    const int source = in_register(i.a), to = result();
    out_.vex({1, 3, 0x1d}, source, 0, Operand::of(to), 0);  // vcvtps2ph, to even
    out_.vex({1, 2, 0x13}, to, 0, Operand::of(to));         // vcvtph2ps
    return true;
  }
  const bool wide = is_wide(i.lane);
  const auto type = static_cast<Memory>(i.immediate - kFirstMemory);
  if (wide && type != Memory::boolean) return false;
  const Operand from = operand(i.a);
  const int to = result();
  switch (type) {
    case Memory::boolean:
      // One less than 0 or 1 is the inverse of the truth value.
      out_.vex({1, 2, static_cast<uint8_t>(wide ? 0x32 : 0x31)}, to, 0, from);
      out_.vex({1, 1, static_cast<uint8_t>(wide ? 0xd4 : 0xfe)}, to, to, Operand::at(kPool, 0));
      invert(to);
      return true;
    case Memory::uint8:
      out_.vex({1, 2, 0x31}, to, 0, from);
      return true;
    case Memory::int8:
      out_.vex({1, 2, 0x21}, to, 0, from);
      return true;
    case Memory::uint16:
      out_.vex({1, 2, 0x33}, to, 0, from);
      return true;
    case Memory::int16:
      out_.vex({1, 2, 0x23}, to, 0, from);
      return true;
    case Memory::float16:
      out_.vex({1, 2, 0x13}, to, 0, from);
      return true;
    case Memory::bfloat16:
      out_.vex({1, 2, 0x33}, to, 0, from);
      out_.vex({1, 1, 0x72}, 6, to, Operand::of(to), 16);  // vpslld
      return true;
    case Memory::lane:
      return false;
  }
  return false;
}

void EmitterAvx2::store_as(Memory type, bool wide, int from, const Operand& to, int scratch, int other) {
  const auto s = Operand::of(scratch), o = Operand::of(other);
  // The lower and the upper half as one vector of 16 bytes, with elements half as wide.
  const auto pack_halves = [&](const Vex& pack) {
    out_.vex(kExtractHigh, scratch, 0, o, 1);
    out_.vex(pack, scratch, scratch, o);
  };
  constexpr Vex kShift{1, 1, 0x72};
  switch (type) {
    case Memory::lane:
      return store(from, to);
    case Memory::float16:
      return out_.vex({1, 3, 0x1d}, from, 0, to, 0);
    case Memory::boolean:
      // All bits of the lane's lowest byte or none: one of them is kept.
      if (wide) {
        out_.vex(kExtractHigh, from, 0, o, 1);
        out_.vex(half_of(0, 1, 0xc6), scratch, from, o, 0x88);  // vshufps: the even elements
        out_.vex({1, 1, 0x72, false, true}, 2, scratch, s, 31);
        out_.vex(half_of(1, 1, 0x6b), scratch, scratch, s);  // vpackssdw
        out_.vex(half_of(1, 1, 0x67), scratch, scratch, s);  // vpackuswb
        return out_.vex(half_of(1, 1, 0x7e), scratch, 0, to);
      }
      out_.vex(kShift, 2, scratch, Operand::of(from), 31);
      pack_halves(half_of(1, 1, 0x6b));
      out_.vex(half_of(1, 1, 0x67), scratch, scratch, s);
      return out_.vex(half_of(1, 1, 0xd6), scratch, 0, to);  // vmovq
    case Memory::uint8:
    case Memory::int8:
      // Without the upper bits, unsigned saturation changes nothing.
      out_.vex(kShift, 6, scratch, Operand::of(from), 24);
      out_.vex(kShift, 2, scratch, s, 24);
      pack_halves(half_of(1, 2, 0x2b));  // vpackusdw
      out_.vex(half_of(1, 1, 0x67), scratch, scratch, s);
      return out_.vex(half_of(1, 1, 0xd6), scratch, 0, to);
    case Memory::uint16:
    case Memory::int16:
      out_.vex(kShift, 6, scratch, Operand::of(from), 16);
      out_.vex(kShift, 2, scratch, s, 16);
      pack_halves(half_of(1, 2, 0x2b));
      return out_.vex(half_of(0, 1, 0x11), scratch, 0, to);
    case Memory::bfloat16:
      out_.vex(kShift, 2, scratch, Operand::of(from), 16);
      pack_halves(half_of(1, 2, 0x2b));
      return out_.vex(half_of(0, 1, 0x11), scratch, 0, to);
  }
}

}  // namespace thalweg::code
