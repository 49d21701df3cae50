#include "memory/guarded_copy.h"

#if defined(__x86_64__)

// rdi: to, rsi: from, rdx: bytes. Stores of x86 are seen in their order. A 16-byte load or store at
// a multiple of 8 may be two of 8 bytes, so it doesn't tear a word either. None of these functions
// has a stack frame, so landing may return at once.
asm(R"(
  .pushsection .text.verbena_guarded_copy, "ax", @progbits
  .p2align 6
verbena_guarded_copies_begin:

  .type verbena_guarded_scatter, @function
verbena_guarded_scatter:
  .cfi_startproc
  endbr64
  mov   %edi, %ecx
.Lverbena_aligned_by_ecx:
  neg   %ecx
  and   $7, %ecx                # bytes before the first aligned word
  jnz   10f
1:
  sub   $1, %rdx                # the last word, or what there is of it, is held back
  jb    9f
  cmp   $64, %rdx
  jb    3f
2:
  prefetcht0 3072(%rsi)         # the next frame, too: see decision 018
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
  jae   2b
3:
  test  $32, %dl
  jz    4f
  movups   (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups %xmm0,   (%rdi)
  movups %xmm1, 16(%rdi)
  add   $32, %rsi
  add   $32, %rdi
4:
  test  $16, %dl
  jz    5f
  movups (%rsi), %xmm0
  movups %xmm0, (%rdi)
  add   $16, %rsi
  add   $16, %rdi
5:
  test  $8, %dl
  jz    6f
  mov   (%rsi), %rax
  mov   %rax, (%rdi)
  add   $8, %rsi
  add   $8, %rdi
6:
  and   $7, %edx                # one less than there is left
  cmp   $7, %edx
  jne   7f
  mov   (%rsi), %rax
  mov   %rax, (%rdi)
  mov   $1, %eax
  ret
7:
  cmp   $3, %edx
  jb    8f
  mov   (%rsi), %eax
  mov   %eax, (%rdi)
  je    9f
  add   $4, %rsi
  add   $4, %rdi
  sub   $4, %edx
8:
  cmp   $1, %edx
  jb    81f
  movzwl (%rsi), %eax
  movw  %ax, (%rdi)
  je    9f
  add   $2, %rsi
  add   $2, %rdi
81:
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
9:
  mov   $1, %eax
  ret

10:
  cmp   %rcx, %rdx
  jbe   20f
  sub   %rcx, %rdx
  test  $1, %cl
  jz    11f
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
  add   $1, %rsi
  add   $1, %rdi
11:
  test  $2, %cl
  jz    12f
  movzwl (%rsi), %eax
  movw  %ax, (%rdi)
  add   $2, %rsi
  add   $2, %rdi
12:
  test  $4, %cl
  jz    1b
  mov   (%rsi), %eax
  mov   %eax, (%rdi)
  add   $4, %rsi
  add   $4, %rdi
  jmp   1b

20:                             # it reaches the first aligned word at most
  test  %edx, %edx
  jz    9b
  test  $1, %cl
  jz    21f
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
  add   $1, %rsi
  add   $1, %rdi
  sub   $1, %edx
21:
  test  $2, %cl
  jz    22f
  cmp   $2, %edx
  jb    23f
  movzwl (%rsi), %eax
  movw  %ax, (%rdi)
  add   $2, %rsi
  add   $2, %rdi
  sub   $2, %edx
22:
  cmp   $4, %edx
  jb    23f
  mov   (%rsi), %eax
  mov   %eax, (%rdi)
  jmp   9b
23:
  test  $2, %dl
  jz    24f
  movzwl (%rsi), %eax
  movw  %ax, (%rdi)
  add   $2, %rsi
  add   $2, %rdi
24:
  test  $1, %dl
  jz    9b
  movzbl (%rsi), %eax
  movb  %al, (%rdi)
  jmp   9b
  .cfi_endproc
  .size verbena_guarded_scatter, . - verbena_guarded_scatter

  .p2align 4
  .type verbena_guarded_gather, @function
verbena_guarded_gather:
  .cfi_startproc
  endbr64
  mov   %esi, %ecx
  jmp   .Lverbena_aligned_by_ecx
  .cfi_endproc
  .size verbena_guarded_gather, . - verbena_guarded_gather

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
// before the last one. A 16-byte load or store at a multiple of 8 is two of 8 bytes here.
asm(R"(
  .pushsection .text.verbena_guarded_copy, "ax", %progbits
  .p2align 6
verbena_guarded_copies_begin:

  .type verbena_guarded_scatter, %function
verbena_guarded_scatter:
  .cfi_startproc
  bti   c
  neg   x4, x0
.Lverbena_aligned_by_x4:
  ands  x4, x4, #7              // bytes before the first aligned word
  b.ne  10f
1:
  subs  x2, x2, #1              // the last word, or what there is of it, is held back
  b.lo  9f
  cmp   x2, #64
  b.lo  3f
2:
  ldp   q0, q1, [x1]
  ldp   q2, q3, [x1, #32]
  stp   q0, q1, [x0]
  stp   q2, q3, [x0, #32]
  add   x1, x1, #64
  add   x0, x0, #64
  sub   x2, x2, #64
  cmp   x2, #64
  b.hs  2b
3:
  tbz   x2, #5, 4f
  ldp   q0, q1, [x1], #32
  stp   q0, q1, [x0], #32
4:
  tbz   x2, #4, 5f
  ldr   q0, [x1], #16
  str   q0, [x0], #16
5:
  tbz   x2, #3, 6f
  ldr   x3, [x1], #8
  str   x3, [x0], #8
6:
  and   x2, x2, #7              // one less than there is left
  cmp   x2, #7
  b.ne  7f
  ldr   x3, [x1]
  dmb   ishst
  str   x3, [x0]
  mov   w0, #1
  ret
7:
  cmp   x2, #3
  b.lo  8f
  b.eq  74f
  ldr   w3, [x1], #4
  str   w3, [x0], #4
  sub   x2, x2, #4
8:
  cmp   x2, #1
  b.lo  71f
  b.eq  72f
  ldrh  w3, [x1], #2
  strh  w3, [x0], #2
71:
  ldrb  w3, [x1]
  dmb   ishst
  strb  w3, [x0]
  b     9f
72:
  ldrh  w3, [x1]
  dmb   ishst
  strh  w3, [x0]
  b     9f
74:
  ldr   w3, [x1]
  dmb   ishst
  str   w3, [x0]
9:
  mov   w0, #1
  ret

10:
  cmp   x2, x4
  b.ls  20f
  sub   x2, x2, x4
  tbz   x4, #0, 11f
  ldrb  w3, [x1], #1
  strb  w3, [x0], #1
11:
  tbz   x4, #1, 12f
  ldrh  w3, [x1], #2
  strh  w3, [x0], #2
12:
  tbz   x4, #2, 1b
  ldr   w3, [x1], #4
  str   w3, [x0], #4
  b     1b

20:                             // it reaches the first aligned word at most
  cbz   x2, 9b
  tbz   x4, #0, 21f
  ldrb  w3, [x1], #1
  strb  w3, [x0], #1
  sub   x2, x2, #1
21:
  tbz   x4, #1, 22f
  cmp   x2, #2
  b.lo  23f
  ldrh  w3, [x1], #2
  dmb   ishst
  strh  w3, [x0], #2
  sub   x2, x2, #2
22:
  cmp   x2, #4
  b.hs  74b
23:
  tbz   x2, #1, 24f
  ldrh  w3, [x1], #2
  dmb   ishst
  strh  w3, [x0], #2
24:
  tbz   x2, #0, 9b
  b     71b
  .cfi_endproc
  .size verbena_guarded_scatter, . - verbena_guarded_scatter

  .type verbena_guarded_gather, %function
verbena_guarded_gather:
  .cfi_startproc
  bti   c
  neg   x4, x1
  b     .Lverbena_aligned_by_x4
  .cfi_endproc
  .size verbena_guarded_gather, . - verbena_guarded_gather

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
[[gnu::visibility("hidden")]] int verbena_guarded_scatter(void* to, const void* from,
                                                          std::size_t bytes);
[[gnu::visibility("hidden")]] int verbena_guarded_gather(void* to, const void* from,
                                                         std::size_t bytes);
[[gnu::visibility("hidden")]] extern const char verbena_guarded_copies_begin[];
[[gnu::visibility("hidden")]] extern const char verbena_guarded_copies_end[];
}

namespace verbena::memory {

bool guarded_scatter(void* to, const void* from, std::size_t bytes) {
  return verbena_guarded_scatter(to, from, bytes) != 0;
}

bool guarded_gather(void* to, const void* from, std::size_t bytes) {
  return verbena_guarded_gather(to, from, bytes) != 0;
}

std::uintptr_t landing_of_guarded_copy(std::uintptr_t pc) {
  const auto begin = reinterpret_cast<std::uintptr_t>(verbena_guarded_copies_begin);
  const auto end = reinterpret_cast<std::uintptr_t>(verbena_guarded_copies_end);
  return begin <= pc && pc < end ? end : 0;
}

}  // namespace verbena::memory

#else

namespace verbena::memory {

bool guarded_scatter(void*, const void*, std::size_t) { return false; }
bool guarded_gather(void*, const void*, std::size_t) { return false; }
std::uintptr_t landing_of_guarded_copy(std::uintptr_t) { return 0; }

}  // namespace verbena::memory

#endif
