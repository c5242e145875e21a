/* One instruction at a time against known values: loads v1..v6, s20..s25 and the old v8, v9, runs
 * it, stores v8, v9, s28, s29, VCC and SCC. The rows are in ops_rows.h. */
#include "tests/emulators/gfx906/test/harness.h"

#include <stdlib.h>
#include <string.h>

/* ULP: one unit in the last place is allowed */
enum kind { V32, V64, MASK, S32, S64, V32_ULP, V16_ULP };
struct op_case {
    enum kind kind;
    struct line line;
    int n;
    struct {
        uint32_t in[6], old, want[2];
        int scc;
    } t[4];
};
static const struct op_case cases[] = {
#include "tests/emulators/gfx906/test/ops_rows.h"
};

static const struct line before[] = {
    TWO("s_load_dwordx4 s[4:7], s[0:1], 0x0", 0xc00a0100, 0x00000000),
    ONE("v_lshlrev_b32_e32 v0, 2, v0", 0x24000082),
    ONE("s_waitcnt lgkmcnt(0)", 0xbf8cc07f),
    TWO("s_load_dwordx8 s[20:27], s[4:5], 0x700", 0xc00e0502, 0x00000700),
    TWO("global_load_dword v1, v0, s[4:5]", 0xdc508000, 0x01040000),
    TWO("global_load_dword v2, v0, s[4:5] offset:256", 0xdc508100, 0x02040000),
    TWO("global_load_dword v3, v0, s[4:5] offset:512", 0xdc508200, 0x03040000),
    TWO("global_load_dword v4, v0, s[4:5] offset:768", 0xdc508300, 0x04040000),
    TWO("global_load_dword v5, v0, s[4:5] offset:1024", 0xdc508400, 0x05040000),
    TWO("global_load_dword v6, v0, s[4:5] offset:1280", 0xdc508500, 0x06040000),
    TWO("global_load_dword v8, v0, s[4:5] offset:1536", 0xdc508600, 0x08040000),
    ONE("s_mov_b32 s28, 0", 0xbe9c0080),
    ONE("s_mov_b32 s29, 0", 0xbe9d0080),
    ONE("s_waitcnt vmcnt(0) lgkmcnt(0)", 0xbf8c0070),
    ONE("v_mov_b32_e32 v9, 0", 0x7e120280),
};
static const struct line after[] = {
    ONE("s_cselect_b32 s30, 1, 0", 0x851e8081),
    ONE("v_mov_b32_e32 v10, s28", 0x7e14021c),
    ONE("v_mov_b32_e32 v11, s29", 0x7e16021d),
    ONE("v_mov_b32_e32 v12, vcc_lo", 0x7e18026a),
    ONE("v_mov_b32_e32 v13, vcc_hi", 0x7e1a026b),
    ONE("v_mov_b32_e32 v14, s30", 0x7e1c021e),
    TWO("global_store_dword v0, v8, s[6:7]", 0xdc708000, 0x00060800),
    TWO("global_store_dword v0, v9, s[6:7] offset:256", 0xdc708100, 0x00060900),
    TWO("global_store_dword v0, v10, s[6:7] offset:512", 0xdc708200, 0x00060a00),
    TWO("global_store_dword v0, v11, s[6:7] offset:768", 0xdc708300, 0x00060b00),
    TWO("global_store_dword v0, v12, s[6:7] offset:1024", 0xdc708400, 0x00060c00),
    TWO("global_store_dword v0, v13, s[6:7] offset:1280", 0xdc708500, 0x00060d00),
    TWO("global_store_dword v0, v14, s[6:7] offset:1536", 0xdc708600, 0x00060e00),
    ONE("s_endpgm", 0xbf810000),
};

void each_op_line(void (*f)(const struct line *l))
{
    for (int k = 0; k < COUNT(before); k++) f(&before[k]);
    for (int k = 0; k < COUNT(after); k++) f(&after[k]);
    for (int k = 0; k < COUNT(cases); k++) f(&cases[k].line);
}

/* Lanes take the cases in turn; with half the lanes off, the others must keep what they had. */
struct rows {
    uint32_t in[7][64], scalar[64];
};
static void fill(const struct op_case *c, struct rows *r)
{
    for (int l = 0; l < 64; l++) {
        for (int k = 0; k < 6; k++) r->in[k][l] = c->t[l % c->n].in[k];
        r->in[6][l] = c->t[l % c->n].old;
    }
    memset(r->scalar, 0, sizeof r->scalar);
    memcpy(r->scalar, c->t[0].in, sizeof c->t[0].in);
}

static int near(uint32_t a, uint32_t b) { return a - b + 1 <= 2; }

static int right(const struct op_case *c, int l, uint32_t out[7][64])
{
    const uint32_t *want = c->t[l % c->n].want;
    switch (c->kind) {
    case V32: return out[0][l] == want[0];
    case V32_ULP:
    case V16_ULP: return near(out[0][l], want[0]);
    case V64: return out[0][l] == want[0] && out[1][l] == want[1];
    case MASK: return (out[4 + l / 32][0] >> l % 32 & 1) == want[0];
    case S32: return out[2][0] == want[0] && out[6][0] == (uint32_t)c->t[0].scc;
    default:
        return out[2][0] == want[0] && out[3][0] == want[1] && out[6][0] == (uint32_t)c->t[0].scc;
    }
}

static void run_case(const struct op_case *c)
{
    static struct rows rows;
    static uint32_t out[7][64];
    struct code code = {.n = 0};
    const struct build b = {0};
    code_add(&code, before, COUNT(before));
    code_add(&code, &c->line, 1);
    code_add(&code, after, COUNT(after));
    fill(c, &rows);
    int rc = run_code(&code, &b, &rows, sizeof rows, out, sizeof out, (const unsigned[]){1, 1, 1},
                      (const unsigned[]){64, 1, 1});
    if (rc) {
        check(0, "%s: %s", c->line.text, gpu.last_fault());
        return;
    }
    int bad = -1;
    for (int l = 0; l < 64 && bad < 0; l++) {
        if (!right(c, l, out)) bad = l;
    }
    check(bad < 0,
          "%s: case %d gives %08x %08x, scalar %08x %08x, vcc %08x%08x, scc %u; wanted %08x %08x, "
          "scc %d",
          c->line.text, bad < 0 ? 0 : bad % c->n, out[0][bad < 0 ? 0 : bad],
          out[1][bad < 0 ? 0 : bad], out[2][0], out[3][0], out[5][0], out[4][0], out[6][0],
          c->t[bad < 0 ? 0 : bad % c->n].want[0], c->t[bad < 0 ? 0 : bad % c->n].want[1],
          c->t[0].scc);
}

/* With some lanes off: those keep what they had, in VCC they are 0. */
static const struct line some_lanes[] = {
    TWO("s_mov_b32 exec_lo, 0xf0c30ff1", 0xbefe00ff, 0xf0c30ff1),
    TWO("s_mov_b32 exec_hi, 0x80000000", 0xbeff00ff, 0x80000000),
};
static const struct line all_lanes[] = {ONE("s_mov_b64 exec, -1", 0xbefe01c1)};

static void run_partial(const struct op_case *c)
{
    static struct rows rows;
    static uint32_t out[7][64];
    const uint64_t on = 0x80000000f0c30ff1;
    struct code code = {.n = 0};
    const struct build b = {0};
    code_add(&code, before, COUNT(before));
    code_add(&code, some_lanes, COUNT(some_lanes));
    code_add(&code, &c->line, 1);
    code_add(&code, all_lanes, COUNT(all_lanes));
    code_add(&code, after, COUNT(after));
    fill(c, &rows);
    int ok = !run_code(&code, &b, &rows, sizeof rows, out, sizeof out, (const unsigned[]){1, 1, 1},
                       (const unsigned[]){64, 1, 1});
    for (int l = 0; l < 64 && ok; l++) {
        if (on >> l & 1) ok = right(c, l, out);
        else if (c->kind == MASK) ok = !(out[4 + l / 32][0] >> l % 32 & 1);
        else ok = out[0][l] == rows.in[6][l] && out[1][l] == 0;
    }
    check(ok, "%s with some lanes off", c->line.text);
}

void test_ops(void)
{
    for (int k = 0; k < COUNT(cases); k++) {
        run_case(&cases[k]);
        if (cases[k].kind != S32 && cases[k].kind != S64) run_partial(&cases[k]);
    }
}
