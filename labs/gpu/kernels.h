#pragma once

namespace gpu {

/// Two kernels as PTX, the assembly language that NVIDIA's driver translates for the GPU that it
/// has. Written by hand: no toolkit is needed to build or to run the lab. Each thread takes the
/// bytes index, index + stride, …; which byte belongs there is the same as in common/pattern.h.
inline constexpr const char* kKernels = R"(
.version 6.0
.target sm_50
.address_size 64

// Byte `at` of a message.
.func (.param .b32 result) pattern_byte(.param .b64 message, .param .b64 at)
{
  .reg .b64 word, index, x;
  .reg .b32 shift, value;
  ld.param.b64 word, [message];
  ld.param.b64 index, [at];
  // word = mix((message + 1) * 0x9e3779b97f4a7c15 + index / 8)
  add.u64 word, word, 1;
  mul.lo.u64 word, word, 0x9e3779b97f4a7c15;
  shr.u64 x, index, 3;
  add.u64 word, word, x;
  shr.u64 x, word, 30;
  xor.b64 word, word, x;
  mul.lo.u64 word, word, 0xbf58476d1ce4e5b9;
  shr.u64 x, word, 27;
  xor.b64 word, word, x;
  mul.lo.u64 word, word, 0x94d049bb133111eb;
  shr.u64 x, word, 31;
  xor.b64 word, word, x;
  // its byte index % 8, the lowest first
  cvt.u32.u64 shift, index;
  and.b32 shift, shift, 7;
  shl.b32 shift, shift, 3;
  shr.u64 word, word, shift;
  cvt.u32.u64 value, word;
  and.b32 value, value, 255;
  st.param.b32 [result], value;
  ret;
}

.visible .entry fill_pattern(.param .u64 address, .param .u64 bytes, .param .u64 message)
{
  .reg .b64 base, end, seed, index, stride, place;
  .reg .b32 block, threads, value;
  .reg .pred done;
  ld.param.u64 base, [address];
  ld.param.u64 end, [bytes];
  ld.param.u64 seed, [message];
  cvta.to.global.u64 base, base;
  // index = block * threads of a block + thread; stride = blocks * threads of a block
  mov.u32 threads, %ntid.x;
  mov.u32 block, %tid.x;
  cvt.u64.u32 index, block;
  mov.u32 block, %ctaid.x;
  mad.wide.u32 index, block, threads, index;
  mov.u32 block, %nctaid.x;
  mul.wide.u32 stride, block, threads;
next:
  setp.ge.u64 done, index, end;
  @done bra finished;
  {
    .param .b32 wanted;
    .param .b64 of, at;
    st.param.b64 [of], seed;
    st.param.b64 [at], index;
    call (wanted), pattern_byte, (of, at);
    ld.param.b32 value, [wanted];
  }
  add.u64 place, base, index;
  st.global.u8 [place], value;
  add.u64 index, index, stride;
  bra next;
finished:
  ret;
}

// The lowest index of a wrong byte goes to `first`, unless that is lower already.
.visible .entry check_pattern(.param .u64 address, .param .u64 bytes, .param .u64 message,
                              .param .u64 first)
{
  .reg .b64 base, end, seed, index, stride, place, lowest;
  .reg .b32 block, threads, value, found;
  .reg .pred done, same;
  ld.param.u64 base, [address];
  ld.param.u64 end, [bytes];
  ld.param.u64 seed, [message];
  ld.param.u64 lowest, [first];
  cvta.to.global.u64 base, base;
  cvta.to.global.u64 lowest, lowest;
  mov.u32 threads, %ntid.x;
  mov.u32 block, %tid.x;
  cvt.u64.u32 index, block;
  mov.u32 block, %ctaid.x;
  mad.wide.u32 index, block, threads, index;
  mov.u32 block, %nctaid.x;
  mul.wide.u32 stride, block, threads;
next:
  setp.ge.u64 done, index, end;
  @done bra finished;
  {
    .param .b32 wanted;
    .param .b64 of, at;
    st.param.b64 [of], seed;
    st.param.b64 [at], index;
    call (wanted), pattern_byte, (of, at);
    ld.param.b32 value, [wanted];
  }
  add.u64 place, base, index;
  ld.global.u8 found, [place];
  setp.eq.u32 same, found, value;
  @same bra right;
  red.global.min.u64 [lowest], index;
right:
  add.u64 index, index, stride;
  bra next;
finished:
  ret;
}
)";

}  // namespace gpu
