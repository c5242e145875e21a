/* Broken kernels: each must fail with the right diagnosis, and its sound sibling must pass. */
#include "tests/emulators/gfx906/test/harness.h"

#include <stdio.h>
#include <string.h>

/* s[4:5] IN, s[6:7] OUT, v1 = 4 * lane, v2 = IN[lane] */
static const struct line start[] = {
    TWO("s_load_dwordx4 s[4:7], s[0:1], 0x0", 0xc00a0100, 0x00000000),
    ONE("v_lshlrev_b32_e32 v1, 2, v0", 0x24020082),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_load_dword v2, v1, s[4:5]", 0xdc508000, 0x02040001),
    ONE("s_waitcnt vmcnt(0)", 0xbf8c0f70),
};
static const struct line finish[] = {ONE("s_endpgm", 0xbf810000)};

static const struct line sound[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("v_xor_b32_e32 v3, 0x100, v1", 0x2a0602ff, 0x00000100),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_write_b32 v1, v4", 0xd81a0000, 0x00000401),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("global_store_dword v1, v4, s[6:7]", 0xdc708000, 0x00060401),
};
static const struct line no_first_barrier[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("v_xor_b32_e32 v3, 0x100, v1", 0x2a0602ff, 0x00000100),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
};
static const struct line read_then_write[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("v_xor_b32_e32 v3, 0x100, v1", 0x2a0602ff, 0x00000100),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
};
static const struct line write_then_read[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("v_xor_b32_e32 v3, 0x100, v1", 0x2a0602ff, 0x00000100),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_write_b32 v1, v4", 0xd81a0000, 0x00000401),
};
static const struct line same_place[] = {TWO("v_and_b32_e32 v3, 0xff, v1", 0x260602ff, 0x000000ff),
                                         TWO("ds_write_b32 v3, v2", 0xd81a0000, 0x00000203)};
static const struct line barrier_before_wait[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201), ONE("s_barrier", 0xbf8a0000)};
static const struct line lds_outside[] = {
    TWO("ds_write_b32 v1, v2 offset:256", 0xd81a0100, 0x00000201)};
static const struct line lds_negative[] = {ONE("v_sub_u32_e32 v3, 0, v1", 0x6a060280),
                                           TWO("ds_write_b32 v3, v2", 0xd81a0000, 0x00000203)};
static const struct line lds_unaligned[] = {ONE("v_add_u32_e32 v3, 2, v1", 0x68060282),
                                            TWO("ds_write_b32 v3, v2", 0xd81a0000, 0x00000203)};
static const struct line lds_unwritten[] = {TWO("ds_read_b32 v3, v1", 0xd86c0000, 0x03000001)};
static const struct line atomic_and_read[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    ONE("s_barrier", 0xbf8a0000),
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280),
    TWO("ds_add_u32 v3, v2", 0xd8000000, 0x00000203),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("ds_read_b32 v4, v3", 0xd86c0000, 0x04000003),
};
static const struct line no_wait_vmem[] = {
    TWO("global_load_dword v3, v1, s[4:5] offset:4", 0xdc508004, 0x03040001),
    ONE("v_add_u32_e32 v3, v3, v2", 0x68060503)};
static const struct line too_few_waits[] = {
    TWO("global_load_dword v3, v1, s[4:5] offset:4", 0xdc508004, 0x03040001),
    TWO("global_load_dword v4, v1, s[4:5] offset:8", 0xdc508008, 0x04040001),
    ONE("s_waitcnt vmcnt(1)", 0xbf8c0f71),
    ONE("v_add_u32_e32 v3, v3, v2", 0x68060503),
    ONE("v_add_u32_e32 v4, v4, v2", 0x68080504),
};
static const struct line overwrite_pending[] = {
    TWO("global_load_dword v3, v1, s[4:5] offset:4", 0xdc508004, 0x03040001),
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280)};
static const struct line no_wait_smem[] = {
    TWO("s_load_dword s20, s[4:5], 0x0", 0xc0020502, 0x00000000),
    ONE("s_add_u32 s20, s20, 1", 0x80148114)};
static const struct line smem_out_of_order[] = {
    TWO("s_load_dword s20, s[4:5], 0x0", 0xc0020502, 0x00000000),
    TWO("s_load_dword s21, s[4:5], 0x4", 0xc0020542, 0x00000004),
    ONE("s_waitcnt lgkmcnt(1)", 0xbf8cc17f),
    ONE("s_add_u32 s20, s20, 1", 0x80148114),
};
static const struct line no_wait_lds[] = {TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
                                          TWO("ds_read_b32 v3, v1", 0xd86c0000, 0x03000001),
                                          ONE("v_mov_b32_e32 v4, v3", 0x7e080303)};
static const struct line two_kinds_of_load[] = {
    TWO("ds_write_b32 v1, v2", 0xd81a0000, 0x00000201),
    TWO("ds_read_b32 v3, v1", 0xd86c0000, 0x03000001),
    TWO("global_load_dword v3, v1, s[4:5] offset:4", 0xdc508004, 0x03040001),
};
static const struct line store_pending[] = {
    TWO("global_load_dword v3, v1, s[4:5] offset:4", 0xdc508004, 0x03040001),
    TWO("global_store_dword v1, v3, s[6:7]", 0xdc708000, 0x00060301)};
static const struct line global_outside[] = {
    TWO("global_load_dword v3, v1, s[4:5] offset:1024", 0xdc508400, 0x03040001)};
static const struct line global_before[] = {
    TWO("global_store_dword v1, v2, s[6:7] offset:-4", 0xdc709ffc, 0x00060201)};
static const struct line global_nowhere[] = {
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280), ONE("v_mov_b32_e32 v4, 0", 0x7e080280),
    TWO("global_load_dword v5, v[3:4], off", 0xdc508000, 0x057f0003)};
static const struct line kernarg_outside[] = {
    TWO("s_load_dword s20, s[0:1], 0x10", 0xc0020500, 0x00000010),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f)};
static const struct line write_code[] = {
    ONE("s_getpc_b64 s[20:21]", 0xbe941c00),
    ONE("v_mov_b32_e32 v3, 0", 0x7e060280),
    TWO("global_store_dword v3, v2, s[20:21]", 0xdc708000, 0x00140203),
};
static const struct line unknown[] = {TWO("v_cubeid_f32 v3, v2, v2, v2", 0xd1c40003, 0x040a0502)};
static const struct line high_vgpr[] = {ONE("v_mov_b32_e32 v16, v2", 0x7e200302)};
static const struct line high_vgpr_load[] = {
    TWO("global_load_dwordx4 v[13:16], v1, s[4:5]", 0xdc5c8000, 0x0d040001)};
static const struct line high_sgpr[] = {ONE("s_mov_b32 s48, 0", 0xbeb00080)};
static const struct line endless[] = {ONE("s_branch 65535", 0xbf82ffff)};
static const struct line run_off[] = {ONE("s_branch 20000", 0xbf824e20)};
static const struct line dpp_too_soon[] = {
    ONE("v_add_u32_e32 v3, v2, v2", 0x68060502),
    TWO("v_mov_b32_dpp v4, v3 row_mirror row_mask:0xf bank_mask:0xf", 0x7e0802fa, 0xff014003)};
static const struct line sgpr_too_soon[] = {
    ONE("v_readfirstlane_b32 s5, v2", 0x7e0a0502),
    TWO("global_load_dword v3, v1, s[4:5]", 0xdc508000, 0x03040001)};
static const struct line sgpr_from_scalar[] = {
    ONE("v_readfirstlane_b32 s22, v2", 0x7e2c0502),
    ONE("s_mov_b64 s[22:23], s[4:5]", 0xbe960104),
    TWO("global_load_dword v3, v1, s[22:23]", 0xdc508000, 0x03160001),
};
static const struct line lane_select_too_soon[] = {
    ONE("v_readfirstlane_b32 s20, v1", 0x7e280501),
    TWO("v_readlane_b32 s21, v2, s20", 0xd2890015, 0x00002902)};
static const struct line store_overwritten[] = {
    ONE("v_lshlrev_b32_e32 v3, 4, v0", 0x24060084),
    TWO("global_store_dwordx4 v3, v[4:7], s[6:7]", 0xdc7c8000, 0x00060403),
    ONE("v_mov_b32_e32 v5, 0", 0x7e0a0280),
};
static const struct line trap[] = {ONE("s_trap 2", 0xbf920002)};
static const struct line rounding[] = {
    TWO("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3", 0xba000801, 0x00000003)};
static const struct line scratch_outside[] = {
    ONE("v_mov_b32_e32 v3, 16", 0x7e060290),
    TWO("scratch_store_dword v3, v2, off", 0xdc704000, 0x007f0203)};

#define BODY(name) #name, name, COUNT(name)
static const struct broken {
    const char *name;
    const struct line *body;
    int n;
    const char *says[3]; /* parts of the line; NULL first: it is sound */
    struct build build;
} broken[] = {
    {BODY(sound), {NULL}, {.lds = 512}},
    {BODY(no_first_barrier), {"ds_read_b32", "never written"}, {.lds = 512}},
    {BODY(read_then_write),
     {"LDS race: write at 256", "read by wave 00", "wave 1, lane 0"},
     {.lds = 512}},
    {BODY(write_then_read),
     {"LDS race: read at 0", "wave 1", "written by wave 00 since the last barrier"},
     {.lds = 512}},
    {BODY(same_place), {"LDS race: write at", "written by wave 00"}, {.lds = 512}},
    {BODY(barrier_before_wait),
     {"s_barrier", "before the s_waitcnt lgkmcnt", "pc 0x24"},
     {.lds = 512}},
    {BODY(lds_outside),
     {"lane 0", "LDS write of 4 bytes at 512, the block has 512", "wave 1"},
     {.lds = 512}},
    {BODY(lds_negative), {"lane 1", "LDS write of 4 bytes at 4294967292"}, {.lds = 512}},
    {BODY(lds_unaligned), {"is not aligned"}, {.lds = 516}},
    {BODY(lds_unwritten), {"LDS read at 0 of a byte that was never written"}, {.lds = 512}},
    {BODY(atomic_and_read), {"LDS race", "wave 1", "wave 00"}, {.lds = 512}},
    {BODY(no_wait_vmem),
     {"v3 is used before the s_waitcnt vmcnt", "load at pc 0x1c", "v_add_u32"},
     {0}},
    {BODY(too_few_waits), {"v4 is used before the s_waitcnt vmcnt", "load at pc 0x24"}, {0}},
    {BODY(overwrite_pending), {"v3 is used before the s_waitcnt vmcnt", "v_mov_b32"}, {0}},
    {BODY(no_wait_smem), {"s20 is used before the s_waitcnt lgkmcnt", "s_add_u32"}, {0}},
    {BODY(smem_out_of_order), {"s20 is used before the s_waitcnt lgkmcnt"}, {0}},
    {BODY(no_wait_lds), {"v3 is used before the s_waitcnt lgkmcnt"}, {.lds = 512}},
    {BODY(two_kinds_of_load), {"load into v3 while that from pc 0x24 is unfinished"}, {.lds = 512}},
    {BODY(store_pending), {"v3 is used before the s_waitcnt vmcnt", "store_dword"}, {0}},
    {BODY(global_outside),
     {"lane 0", "read of 4 bytes at offset 1024 of the allocation of 1024 bytes"},
     {0}},
    {BODY(global_before), {"lane 0", "write of 4 bytes"}, {0}},
    {BODY(global_nowhere), {"at 0x0, where nothing is allocated"}, {0}},
    {BODY(kernarg_outside), {"s_load_dword", "offset 16 of the allocation of 16 bytes"}, {0}},
    {BODY(write_code), {"a code object"}, {0}},
    {BODY(unknown), {"unknown instruction (encoding d1c40003 040a0502)"}, {0}},
    {BODY(high_vgpr), {"VGPR above the number that the kernel declares", "7e200302"}, {0}},
    {BODY(high_vgpr_load), {"VGPR above the number that the kernel declares"}, {0}},
    {BODY(high_sgpr), {"SGPR above the number that the kernel declares"}, {0}},
    {BODY(endless), {"more than 100000 instructions: an endless loop?", "s_branch"}, {0}},
    {BODY(run_off), {"outside the code"}, {0}},
    {BODY(dpp_too_soon), {"DPP of a VGPR that the VALU wrote needs 2 wait states, has 0"}, {0}},
    {BODY(sgpr_too_soon),
     {"vector memory with an SGPR that the VALU wrote needs 5 wait states"},
     {0}},
    {BODY(sgpr_from_scalar), {NULL}, {0}},
    {BODY(lane_select_too_soon),
     {"lane select by an SGPR that the VALU wrote needs 4 wait states"},
     {0}},
    {BODY(store_overwritten), {"v5 is overwritten right after the wide store"}, {0}},
    {BODY(trap), {"s_trap 2"}, {0}},
    {BODY(rounding), {"rounding mode 3 is not implemented"}, {0}},
    {BODY(scratch_outside), {"scratch write of 4 bytes at 16, the lane has 16"}, {.scratch = 16}},
};

void each_fault_line(void (*f)(const struct line *l))
{
    for (int k = 0; k < COUNT(start); k++) f(&start[k]);
    for (int k = 0; k < COUNT(finish); k++) f(&finish[k]);
    for (int p = 0; p < COUNT(broken); p++) {
        for (int k = 0; k < broken[p].n; k++) f(&broken[p].body[k]);
    }
}

void test_faults(void)
{
    static uint32_t in[256], out[1024];
    gpu.step_limit(100000);
    for (int k = 0; k < COUNT(broken); k++) {
        const struct broken *b = &broken[k];
        struct code code = {.n = 0};
        code_add(&code, start, COUNT(start));
        code_add(&code, b->body, b->n);
        code_add(&code, finish, COUNT(finish));
        int rc = run_code(&code, &b->build, in, sizeof in, out, sizeof out,
                          (const unsigned[]){1, 1, 1}, (const unsigned[]){128, 1, 1});
        const char *line = gpu.last_fault();
        if (!b->says[0]) {
            check(rc == 0, "%s: %s", b->name, line);
            continue;
        }
        check(rc == 719, "%s gives %d", b->name, rc);
        for (int n = 0; n < 3 && b->says[n]; n++)
            check(strstr(line, b->says[n]) != NULL, "%s: '%s' is not in '%s'", b->name, b->says[n],
                  line);
        check(strstr(line, "kernel test, pc 0x") && !strchr(line, '\n'),
              "%s: the line '%s' names kernel and pc", b->name, line);
    }
    gpu.step_limit(1ull << 28);
}
