/* gpu.h: the machine that the interpreter models: decoded instructions, waves, blocks, device
 * memory. Internal to this folder; its interface is HIP (hip.c) and gfx906.h. Facts of the
 * instruction set: AMD "Vega" 7nm ISA document, LLVM AMDGPU usage guide, and the encodings of
 * llvm-mc-19. */
#ifndef GPU_H
#define GPU_H
#include "gfx906.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offset of the mark of rtc.c's objects, in padding of the ELF header. */
enum { COMPILED_MARK_AT = 15, COMPILED_MARK = 1 };
enum { LANES = 64, MAX_WAVES = 16, LDS_MAX = 65536 };
enum { SGPR_VCC = 106, SGPR_M0 = 124, SGPR_EXEC = 126 };
enum encoding {
    ENC_SOP2,
    ENC_SOPK,
    ENC_SOP1,
    ENC_SOPC,
    ENC_SOPP,
    ENC_SMEM,
    ENC_VOP1,
    ENC_VOP2,
    ENC_VOPC,
    ENC_VOP3,
    ENC_VOP3P,
    ENC_DS,
    ENC_FLAT,
    ENC_MUBUF,
    N_ENC
};
#define LDS_APERTURE 0x1000000000000ull
#define SCRATCH_APERTURE 0x2000000000000ull
/* in the buffer descriptor of scratch, whose bases have 48 bits */
#define SCRATCH_BASE 0x600000000000ull
enum unit {
    UNIT_VALU,
    UNIT_SALU,
    UNIT_SMEM,
    UNIT_VMEM,
    UNIT_LDS,
    UNIT_BRANCH,
    UNIT_OTHER,
    N_UNITS
};

struct wave;
struct insn;
typedef void exec_fn(struct wave *w, const struct insn *i);
/* One operation on 64 lanes: d[64] from a, b, c [64]; 64-bit operands are two rows, low words then
 * high words. */
typedef void lane_fn(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c);
typedef uint64_t mask_fn(const uint32_t *a, const uint32_t *b); /* a comparison: bit l = lane l */

/* One row of the operation tables. Exactly one of exec, lane, mask is set. sig: type of the result,
 * then of each source, one letter each:
 *   i 32-bit integer or bits   f fp32   h fp16 (result: other half becomes 0)   H result only:
 *       other half is kept
 *   w 16-bit integer (as h)    W as H   d fp64   q 64-bit integer   p packed 2 x 16 bit   m fma_mix
 *       source
 *   F fp32 bits that are only moved (modifiers, no flush)   s lane mask of SGPRs   r result only:
 *       one SGPR
 *   c result only: i and a mask   k result only: q and a mask   - no result */
struct op {
    enum encoding enc;
    uint16_t code;
    const char *name, *sig;
    lane_fn *lane;
    mask_fn *mask;
    exec_fn *exec;
    uint32_t arg; /* of exec: which member of its family */
};

enum src_kind { SRC_NONE, SRC_VGPR, SRC_SGPR, SRC_CONST, SRC_SPECIAL };
enum { SPECIAL_VCCZ = 251, SPECIAL_EXECZ, SPECIAL_SCC };
enum { SEL_BYTE0, SEL_WORD0 = 4, SEL_WORD1, SEL_DWORD };
struct src {
    uint8_t kind, type;   /* type: letter of op.sig */
    uint8_t reg, sel;     /* sel: SDWA selection, SEL_DWORD when whole */
    bool neg, abs, sext;  /* on packed operands neg = neg_lo */
    bool hi, hi2, neg_hi; /* op_sel; packed: op_sel_hi and neg_hi */
    bool plain;           /* the VGPR row can be used as it is */
    uint64_t value;       /* SRC_CONST */
};

enum {
    ATOMIC_SWAP,
    ATOMIC_CMPSWAP,
    ATOMIC_ADD,
    ATOMIC_SUB,
    ATOMIC_SMIN,
    ATOMIC_UMIN,
    ATOMIC_SMAX,
    ATOMIC_UMAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_INC,
    ATOMIC_DEC,
    ATOMIC_RSUB,
    ATOMIC_ADD_F32,
    ATOMIC_MIN_F32,
    ATOMIC_MAX_F32,
    ATOMIC_MSKOR,
    N_ATOMICS
};
/* Transfer of a memory instruction. */
struct transfer {
    uint8_t bytes;             /* of memory, each lane and address */
    uint8_t data, data1;       /* VGPRs read: first and second data operand */
    uint8_t result;            /* VGPRs written */
    bool sign, hi, keeps_half; /* loads of 8 and 16 bits: extend the sign; to (stores: from) the
                                  upper half; keep the other */
    uint8_t pair;              /* LDS: two addresses, offsets counted in bytes * pair */
    bool atomic;
    uint8_t kind; /* enum of atomics */
};
enum {
    T_NONE,
    T_U8,
    T_I8,
    T_U16,
    T_I16,
    T_LOAD1,
    T_LOAD2,
    T_LOAD3,
    T_LOAD4,
    T_U8_LO,
    T_U8_HI,
    T_I8_LO,
    T_I8_HI,
    T_16_LO,
    T_16_HI,
    T_STORE8,
    T_STORE8_HI,
    T_STORE16,
    T_STORE16_HI,
    T_STORE1,
    T_STORE2,
    T_STORE3,
    T_STORE4,
    T_READ2,
    T_READ2_ST64,
    T_READ2_B64,
    T_READ2_ST64_B64,
    T_WRITE2,
    T_WRITE2_ST64,
    T_WRITE2_B64,
    T_WRITE2_ST64_B64,
    T_EXCHANGE,
    T_ATOMIC,
    T_ATOMIC_X2 = T_ATOMIC + N_ATOMICS,
    T_DS_PAIR = T_ATOMIC_X2 + N_ATOMICS, /* data and comparand apart */
    T_DS_PAIR_X2 = T_DS_PAIR + N_ATOMICS,
    N_TRANSFERS = T_DS_PAIR_X2 + N_ATOMICS
};
extern struct transfer transfers[N_TRANSFERS];
void transfers_init(void);

struct insn {
    exec_fn *exec; /* NULL: not decoded yet */
    const struct op *op;
    uint32_t word[2], literal;
    uint32_t pc; /* byte offset in the image */
    uint8_t n_words, n_src, unit;
    uint8_t dst, sdst, dst_type;
    bool cmpx;           /* a comparison that also writes EXEC */
    const char *refusal; /* why exec is exec_refused */
    struct src src[3];
    bool direct; /* the result may be written straight to the register row when all lanes are on */
    bool clamp, dst_hi, sdwa, dpp;
    uint8_t omod, dst_sel, dst_unused, row_mask, bank_mask;
    bool bound_ctrl;
    uint16_t dpp_ctrl;
    /* memory */
    uint8_t addr, data, data1, sbase, soffset, n_dwords;
    bool glc, has_saddr, offen, idxen;
    uint8_t seg; /* FLAT: 0 flat, 1 scratch, 2 global */
    int32_t offset, offset1;
    int32_t simm;
    uint8_t transfer; /* enum transfer: how a memory instruction moves bytes */
    /* registers that must not be the target of an unfinished load: bit r of word r / 64 */
    uint64_t check_v[4], check_s[2];
    uint64_t write_v[4], write_s[2]; /* what the VALU writes */
};

/* Loads and stores in flight, in order of issue. */
enum pending_kind { PEND_LOAD, PEND_STORE, PEND_LDS_READ, PEND_LDS_WRITE, PEND_SMEM, PEND_FLAT };
struct pending {
    uint32_t pc;
    uint8_t kind, reg, n_regs; /* registers that it will write */
};
enum { PEND_MAX = 64 };
struct pending_queue {
    struct pending e[PEND_MAX];
    int n;
};

struct block;
struct wave {
    uint32_t v[256][LANES] __attribute__((aligned(64)));
    uint32_t tmp[3][2 * LANES] __attribute__((aligned(64))); /* prepared sources */
    uint32_t out[4 * LANES] __attribute__((aligned(64)));    /* a result before it is committed */
    union {
        uint32_t s[128];
        uint64_t s64[64]; /* s64[n] = SGPRs 2n, 2n+1 */
    };
    uint32_t pc, scc,
        mode; /* mode: the MODE register (rounding 0..3, denormals 4..7, clamp 8, IEEE 9) */
    bool done, at_barrier, gpr_idx;
    int id; /* within the block */
    struct block *block;
    uint64_t steps, dpp_mask;
    uint64_t pend_v[4], pend_s[2]; /* registers that unfinished loads will write */
    struct pending_queue vm, lgkm;
    uint32_t tick, vgpr_tick[256],
        sgpr_tick[128]; /* wait states; when the VALU last wrote the register */
    const struct insn
        *wide_store; /* the instruction before this one, when it was a store of 3 or 4 dwords */
    uint64_t count[N_UNITS];
    uint8_t *scratch; /* [lane][scratch_size] */
};

#define EXEC(w) ((w)->s64[SGPR_EXEC / 2])
#define VCC(w) ((w)->s64[SGPR_VCC / 2])

struct kernel {
    char name[128];
    struct module *module;
    uint32_t entry; /* byte offset in the image */
    uint32_t rsrc1, rsrc2, properties, lds_size, scratch_size, kernarg_size, n_vgprs, n_sgprs,
        max_threads;
    struct {
        uint32_t offset, size;
    } *args; /* [n_args], those that the caller passes */
    int n_args;
    struct insn *code; /* [image_size / 4], decoded when first reached */
    struct stats_entry *stats;
};

struct module {
    uint8_t *image; /* host address of the loaded segments */
    uint64_t base;  /* its device address */
    uint32_t size;
    struct kernel **kernels;
    int n_kernels;
    struct symbol {
        char *name;
        uint64_t value, size;
    } *symbols;
    int n_symbols;
};

struct launch {
    struct kernel *kernel;
    uint32_t grid[3], block[3], lds_size; /* grid in blocks; LDS in bytes, static and dynamic */
    uint64_t kernarg, packet;             /* device addresses */
    uint64_t step_limit;
};

struct block {
    const struct launch *launch;
    uint32_t id[3];
    int n_waves, n_threads;
    uint8_t lds[LDS_MAX] __attribute__((aligned(64)));
    uint8_t known[LDS_MAX];  /* byte was written */
    uint8_t writer[LDS_MAX]; /* since the last barrier: wave + 1; see lds.c */
    uint8_t reader[LDS_MAX];
    /* a bit for each 64th of LDS_MAX: since the last barrier, before it since the block began */
    uint64_t lds_touched, lds_used;
    struct wave *waves; /* [MAX_WAVES] */
    uint8_t *scratch;   /* [wave][lane][scratch_size] */
    jmp_buf on_fault;
    struct block *next; /* of those that no launch has */
};

/* wave.c: prints one line and returns to the launch. lane < 0: no particular lane. */
_Noreturn void fault(struct wave *w, const struct insn *i, int lane, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
extern char fault_text[512];
extern bool fault_quiet;

/* codeobj.c. Returns 0, or the HIP error with the reason in why[]. */
int module_load(const void *image, struct module **out, char why[128]);
void module_free(struct module *m);
struct kernel *module_kernel(struct module *m, const char *name);

/* rtc.c: the device is initialized */
void rtc_initialized(void);

/* stats.c: counts by the kernel's name, kept after its module is gone. */
struct stats_entry {
    char name[128];
    struct gfx906_stats sum;
    struct stats_entry *next;
};
/* Somebody reads the counts: what costs much to count is counted. */
extern bool stats_wanted;
struct stats_entry *stats_of(const char *name); /* NULL: out of memory */

/* decode.c: sums of unsigned words that stop at the ends, v_add_u32 and the two that follow it */
enum { VOP2_ADD_U32 = 0x34, CODE_CLAMPED = 0x3f0 };
void decode_init(bool portable); /* portable: lane operations that need no AVX2 */
void decode(struct kernel *k, uint32_t pc, struct insn *i);
const struct op *decode_op(enum encoding enc, int code); /* NULL: not implemented */

/* Tables of operations; each ends with a row without a name. (Those of the lane files: see
 * lanes.h.) */
extern const struct op ops_salu[], ops_valu[], ops_mem[], ops_lds[];

/* valu.c */
exec_fn exec_lanes, exec_compare;
const uint32_t *valu_source(struct wave *w, const struct insn *i, int k);
void valu_commit(struct wave *w, const struct insn *i, int n_regs); /* of w->out */
uint32_t salu_read(const struct wave *w, const struct src *s);
uint64_t salu_read64(const struct wave *w, const struct src *s);

/* hip.c: other threads, with their devices, may interpret meanwhile */
void interpreter_rest(void);

/* wave.c */
int run_launch(const struct launch *l); /* 0, or the HIP error */
void wave_pend(struct wave *w, struct pending_queue *q, const struct insn *i, int kind, int reg,
               int n_regs);
void wave_wait(struct wave *w, struct pending_queue *q, int most);

/* memory.c: device memory */
enum { ALLOC_DATA, ALLOC_CODE, ALLOC_HOST };
struct alloc {
    uint64_t base, size; /* device address, bytes */
    uint8_t *host;
    uint8_t kind;
    bool freed;
};
int memory_alloc(uint64_t *addr, uint64_t size, int kind); /* 0, or -1: out of memory */
int memory_free(uint64_t addr);                            /* 0, or -1: not an allocation */
/* pinned host memory, seen at its own address */
int memory_add_host(void *p, uint64_t size);
int memory_remove_host(void *p);
/* the allocation that holds addr, freed ones too; NULL: none */
const struct alloc *memory_find(uint64_t addr);
const struct alloc *memory_below(uint64_t addr); /* the one at or before addr, for messages */
/* NULL unless all of it is in one live allocation */
uint8_t *memory_host(uint64_t addr, uint64_t size);
uint64_t memory_used(void);
extern uint64_t memory_total;
extern unsigned memory_generation; /* changes with the allocations */

/* transfer.c */
/* bytes from memory -> the lane's registers */
void load_lane(struct wave *w, const struct insn *i, int lane, const void *p);
void store_lane(struct wave *w, const struct insn *i, int lane,
                void *p); /* the lane's registers -> memory */
/* The new value; old and operands zero-extended from their 4 or 8 bytes. */
uint64_t atomic_apply(int kind, uint64_t old, uint64_t data, uint64_t compare, int bytes);

/* lds.c: one lane's access, with all checks. */
/* where the bytes are */
const uint8_t *lds_load(struct wave *w, const struct insn *i, int lane, uint32_t addr, int bytes);
void lds_store(struct wave *w, const struct insn *i, int lane, uint32_t addr, const void *in,
               int bytes);
void lds_update(struct wave *w, const struct insn *i, int lane, uint32_t addr, uint64_t data,
                uint64_t compare, void *old);
void lds_barrier(struct block *b); /* all waves have arrived */
void lds_begin(struct block *b);   /* nothing of it is known */
#endif
