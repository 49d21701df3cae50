#include "memory/guarded_word.h"

#if defined(__x86_64__)

// rdi: the word. Result: rax held, rdx done.
asm(R"(
  .pushsection .text.verbena_guarded_word, "ax", @progbits
  .p2align 6
verbena_guarded_words_begin:

  .type verbena_guarded_compare_swap, @function
verbena_guarded_compare_swap:
  .cfi_startproc
  endbr64
  mov   %rsi, %rax
  lock cmpxchg %rdx, (%rdi)
  mov   $1, %edx
  ret
  .cfi_endproc
  .size verbena_guarded_compare_swap, . - verbena_guarded_compare_swap

  .type verbena_guarded_fetch_add, @function
verbena_guarded_fetch_add:
  .cfi_startproc
  endbr64
  lock xadd %rsi, (%rdi)
  mov   %rsi, %rax
  mov   $1, %edx
  ret
  .cfi_endproc
  .size verbena_guarded_fetch_add, . - verbena_guarded_fetch_add

  .type verbena_guarded_store, @function
verbena_guarded_store:
  .cfi_startproc
  endbr64
  xchg  %rsi, (%rdi)
  mov   %rsi, %rax
  mov   $1, %edx
  ret
  .cfi_endproc
  .size verbena_guarded_store, . - verbena_guarded_store

verbena_guarded_words_end:
  .cfi_startproc
  endbr64
  xor   %edx, %edx
  ret
  .cfi_endproc
  .popsection
)");

#elif defined(__aarch64__)

// x0: the word. Result: x0 held, x1 done.
asm(R"(
  .pushsection .text.verbena_guarded_word, "ax", %progbits
  .p2align 6
verbena_guarded_words_begin:

  .type verbena_guarded_compare_swap, %function
verbena_guarded_compare_swap:
  .cfi_startproc
  bti   c
1:
  ldaxr x3, [x0]
  cmp   x3, x1
  csel  x4, x2, x3, eq
  stlxr w5, x4, [x0]
  cbnz  w5, 1b
  mov   x0, x3
  mov   x1, #1
  ret
  .cfi_endproc
  .size verbena_guarded_compare_swap, . - verbena_guarded_compare_swap

  .type verbena_guarded_fetch_add, %function
verbena_guarded_fetch_add:
  .cfi_startproc
  bti   c
1:
  ldaxr x3, [x0]
  add   x4, x3, x1
  stlxr w5, x4, [x0]
  cbnz  w5, 1b
  mov   x0, x3
  mov   x1, #1
  ret
  .cfi_endproc
  .size verbena_guarded_fetch_add, . - verbena_guarded_fetch_add

  .type verbena_guarded_store, %function
verbena_guarded_store:
  .cfi_startproc
  bti   c
  stlr  x1, [x0]
  mov   x1, #1
  ret
  .cfi_endproc
  .size verbena_guarded_store, . - verbena_guarded_store

verbena_guarded_words_end:
  .cfi_startproc
  bti   j
  mov   x1, #0
  ret
  .cfi_endproc
  .popsection
)");

#endif

#if defined(__x86_64__) || defined(__aarch64__)

extern "C" {
// Names of assembly, seen by this library alone.
[[gnu::visibility("hidden")]] verbena::memory::GuardedWord verbena_guarded_compare_swap(
    std::uint64_t* word, std::uint64_t compare, std::uint64_t swap);
[[gnu::visibility("hidden")]] verbena::memory::GuardedWord verbena_guarded_fetch_add(
    std::uint64_t* word, std::uint64_t add);
[[gnu::visibility("hidden")]] verbena::memory::GuardedWord verbena_guarded_store(
    std::uint64_t* word, std::uint64_t value);
[[gnu::visibility("hidden")]] extern const char verbena_guarded_words_begin[];
[[gnu::visibility("hidden")]] extern const char verbena_guarded_words_end[];
}

namespace verbena::memory {

GuardedWord guarded_compare_swap(std::uint64_t* word, std::uint64_t compare, std::uint64_t swap) {
  return verbena_guarded_compare_swap(word, compare, swap);
}

GuardedWord guarded_fetch_add(std::uint64_t* word, std::uint64_t add) {
  return verbena_guarded_fetch_add(word, add);
}

GuardedWord guarded_store(std::uint64_t* word, std::uint64_t value) {
  return verbena_guarded_store(word, value);
}

std::uintptr_t landing_of_guarded_word(std::uintptr_t pc) {
  const auto begin = reinterpret_cast<std::uintptr_t>(verbena_guarded_words_begin);
  const auto end = reinterpret_cast<std::uintptr_t>(verbena_guarded_words_end);
  return begin <= pc && pc < end ? end : 0;
}

}  // namespace verbena::memory

#else

namespace verbena::memory {

GuardedWord guarded_compare_swap(std::uint64_t*, std::uint64_t, std::uint64_t) { return {0, 0}; }
GuardedWord guarded_fetch_add(std::uint64_t*, std::uint64_t) { return {0, 0}; }
GuardedWord guarded_store(std::uint64_t*, std::uint64_t) { return {0, 0}; }
std::uintptr_t landing_of_guarded_word(std::uintptr_t) { return 0; }

}  // namespace verbena::memory

#endif
