#include "memory/guarded_copy.h"

#if defined(__x86_64__)

// rdi: to, rsi: from, rdx: bytes. Stores of x86 are seen in their order. None of these functions
// has a stack frame, so landing may return at once.
asm(R"(
  .pushsection .text.verbena_guarded_copy, "ax", @progbits
  .p2align 6
verbena_guarded_copies_begin:

  .type verbena_guarded_copy, @function
verbena_guarded_copy:
  .cfi_startproc
  endbr64
  sub   $1, %rdx
  jb    9f
  cmp   $64, %rdx
  jb    2f
1:
  movups   (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movups %xmm0,   (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  add   $64, %rsi
  add   $64, %rdi
  sub   $64, %rdx
  cmp   $64, %rdx
  jae   1b
2:
  test  $32, %dl
  jz    3f
  movups   (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0,   (%rdi)
  movups %xmm1, 16(%rdi)
  add   $32, %rsi
  add   $32, %rdi
3:
  test  $16, %dl
  jz    4f
  movups (%rsi), %xmm0
  movups %xmm0, (%rdi)
  add   $16, %rsi
  add   $16, %rdi
4:
  test  $8, %dl
  jz    5f
  mov   (%rsi), %rax
  mov   %rax, (%rdi)
  add   $8, %rsi
  add   $8, %rdi
5:
  test  $4, %dl
  jz    6f
  mov   (%rsi), %eax
  mov   %eax, (%rdi)
  add   $4, %rsi
  add   $4, %rdi
6:
  test  $2, %dl
  jz    7f
  movzwl (%rsi), %eax
  movw  %ax, (%rdi)
  add   $2, %rsi
  add   $2, %rdi
7:
  test  $1, %dl
  jz    8f
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
  add   $1, %rsi
  add   $1, %rdi
8:
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
9:
  mov   $1, %eax
  ret
  .cfi_endproc
  .size verbena_guarded_copy, . - verbena_guarded_copy

  .p2align 6
  .type verbena_guarded_copy_streamed, @function
verbena_guarded_copy_streamed:
  .cfi_startproc
  endbr64
  test  $63, %dil
  jnz   verbena_guarded_copy
  cmp   $64, %rdx
  jb    verbena_guarded_copy
2:
  movups   (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movntps %xmm0,   (%rdi)
  movntps %xmm1, 16(%rdi)
  movntps %xmm2, 32(%rdi)
  movntps %xmm3, 48(%rdi)
  add   $64, %rsi
  add   $64, %rdi
  sub   $64, %rdx
  cmp   $64, %rdx
  jae   2b
  jmp   verbena_guarded_copy
  .cfi_endproc
  .size verbena_guarded_copy_streamed, . - verbena_guarded_copy_streamed

verbena_guarded_copies_end:
  .cfi_startproc
  endbr64
  xor   %eax, %eax
  ret
  .cfi_endproc
  .popsection
)");

#elif defined(__aarch64__)

// x0: to, x1: from, x2: bytes. Stores of this machine have no order of their own, hence the barrier
// before the last byte.
asm(R"(
  .pushsection .text.verbena_guarded_copy, "ax", %progbits
  .p2align 6
verbena_guarded_copies_begin:

  .type verbena_guarded_copy, %function
verbena_guarded_copy:
  .cfi_startproc
  bti   c
  subs  x2, x2, #1
  b.lo  9f
  cmp   x2, #64
  b.lo  2f
1:
  ldp   q0, q1, [x1]
  ldp   q2, q3, [x1, #32]
  stp   q0, q1, [x0]
  stp   q2, q3, [x0, #32]
  add   x1, x1, #64
  add   x0, x0, #64
  sub   x2, x2, #64
  cmp   x2, #64
  b.hs  1b
2:
  tbz   x2, #5, 3f
  ldp   q0, q1, [x1], #32
  stp   q0, q1, [x0], #32
3:
  tbz   x2, #4, 4f
  ldr   q0, [x1], #16
  str   q0, [x0], #16
4:
  tbz   x2, #3, 5f
  ldr   x3, [x1], #8
  str   x3, [x0], #8
5:
  tbz   x2, #2, 6f
  ldr   w3, [x1], #4
  str   w3, [x0], #4
6:
  tbz   x2, #1, 7f
  ldrh  w3, [x1], #2
  strh  w3, [x0], #2
7:
  tbz   x2, #0, 8f
  ldrb  w3, [x1], #1
  strb  w3, [x0], #1
8:
  ldrb  w3, [x1]
  dmb   ishst
  strb  w3, [x0]
9:
  mov   w0, #1
  ret
  .cfi_endproc
  .size verbena_guarded_copy, . - verbena_guarded_copy

  .type verbena_guarded_copy_streamed, %function
verbena_guarded_copy_streamed:
  .cfi_startproc
  bti   c
  cmp   x2, #64
  b.ls  verbena_guarded_copy
1:
  ldp   q0, q1, [x1]
  ldp   q2, q3, [x1, #32]
  stnp  q0, q1, [x0]
  stnp  q2, q3, [x0, #32]
  add   x1, x1, #64
  add   x0, x0, #64
  sub   x2, x2, #64
  cmp   x2, #64
  b.hi  1b
  b     verbena_guarded_copy
  .cfi_endproc
  .size verbena_guarded_copy_streamed, . - verbena_guarded_copy_streamed

verbena_guarded_copies_end:
  .cfi_startproc
  bti   j
  mov   w0, #0
  ret
  .cfi_endproc
  .popsection
)");

#endif

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" {
// Names of assembly, seen by this library alone.
[[gnu::visibility("hidden")]] int verbena_guarded_copy(void* to, const void* from,
                                                       std::size_t bytes);
[[gnu::visibility("hidden")]] int verbena_guarded_copy_streamed(void* to, const void* from,
                                                                std::size_t bytes);
[[gnu::visibility("hidden")]] extern const char verbena_guarded_copies_begin[];
[[gnu::visibility("hidden")]] extern const char verbena_guarded_copies_end[];
}

namespace verbena::memory {

bool guarded_copy(void* to, const void* from, std::size_t bytes) {
  return verbena_guarded_copy(to, from, bytes) != 0;
}

bool guarded_copy_streamed(void* to, const void* from, std::size_t bytes) {
  return verbena_guarded_copy_streamed(to, from, bytes) != 0;
}

#if defined(__x86_64__)
bool streaming_pays() {
  static const bool pays = __builtin_cpu_is("amd") != 0;
  return pays;
}
#else
bool streaming_pays() { return false; }
#endif

std::uintptr_t landing_of_guarded_copy(std::uintptr_t pc) {
  const auto begin = reinterpret_cast<std::uintptr_t>(verbena_guarded_copies_begin);
  const auto end = reinterpret_cast<std::uintptr_t>(verbena_guarded_copies_end);
  return begin <= pc && pc < end ? end : 0;
}

}  // namespace verbena::memory

#else

namespace verbena::memory {

bool guarded_copy(void*, const void*, std::size_t) { return false; }
bool guarded_copy_streamed(void*, const void*, std::size_t) { return false; }
bool streaming_pays() { return false; }
std::uintptr_t landing_of_guarded_copy(std::uintptr_t) { return 0; }

}  // namespace verbena::memory

#endif
