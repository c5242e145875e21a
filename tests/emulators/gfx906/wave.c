/* Runs launches: blocks one after the other, the waves of a block in turns from barrier to barrier.
 * Checks before each instruction that its registers are there: no load into them unfinished, no
 * hardware hazard that needs wait states. */
#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIP_LAUNCH_FAILURE = 719, HIP_NO_MEMORY = 2 };
char fault_text[512];
bool fault_quiet;

void fault(struct wave *w, const struct insn *i, int lane, const char *what, ...)
{
    const struct launch *l = w->block->launch;
    va_list args;
    int n = snprintf(fault_text, sizeof fault_text,
                     "kernel %s, pc 0x%x, %s, block %u,%u,%u, wave %d", l->kernel->name,
                     i->pc - l->kernel->entry, i->op ? i->op->name : "?", w->block->id[0],
                     w->block->id[1], w->block->id[2], w->id);
    if (lane >= 0) n += snprintf(fault_text + n, sizeof fault_text - (size_t)n, ", lane %d", lane);
    n += snprintf(fault_text + n, sizeof fault_text - (size_t)n, ": ");
    va_start(args, what);
    vsnprintf(fault_text + n, sizeof fault_text - (size_t)n, what, args);
    va_end(args);
    if (!fault_quiet) fprintf(stderr, "gfx906: %s\n", fault_text);
    longjmp(w->block->on_fault, 1);
}

/* --- loads and stores under way */
static void mark(uint64_t *set, int reg, int n)
{
    for (; n--; reg++) set[reg / 64] |= 1ull << reg % 64;
}

static bool overlap(const struct pending *p, int reg, int n)
{
    return p->kind != PEND_SMEM && p->n_regs && n && p->reg < reg + n && reg < p->reg + p->n_regs;
}

/* After a change of the queues: which registers are still to be written. */
static void collect(struct wave *w)
{
    memset(w->pend_v, 0, sizeof w->pend_v);
    memset(w->pend_s, 0, sizeof w->pend_s);
    for (int q = 0; q < 2; q++) {
        const struct pending_queue *queue = q ? &w->lgkm : &w->vm;
        for (int k = 0; k < queue->n; k++)
            mark(queue->e[k].kind == PEND_SMEM ? w->pend_s : w->pend_v, queue->e[k].reg,
                 queue->e[k].n_regs);
    }
}

void wave_pend(struct wave *w, struct pending_queue *q, const struct insn *i, int kind, int reg,
               int n_regs)
{
    /* Two loads into one register arrive in order when they are of one kind, otherwise in any
     * order. */
    const struct pending_queue *other = q == &w->vm ? &w->lgkm : &w->vm;
    for (int k = 0; k < other->n && kind != PEND_SMEM && kind != PEND_FLAT; k++) {
        if (overlap(&other->e[k], reg, n_regs))
            fault(w, i, -1, "load into v%d while that from pc 0x%x is unfinished", reg,
                  other->e[k].pc);
    }
    if (q->n == PEND_MAX) { /* more than the counter holds: the hardware would have waited */
        memmove(q->e, q->e + 1, sizeof q->e - sizeof *q->e);
        q->n--;
        collect(w);
    }
    q->e[q->n++] = (struct pending){i->pc - w->block->launch->kernel->entry, (uint8_t)kind,
                                    (uint8_t)reg, (uint8_t)n_regs};
    mark(kind == PEND_SMEM ? w->pend_s : w->pend_v, reg, n_regs);
}

void wave_wait(struct wave *w, struct pending_queue *q, int most)
{
    if (q->n <= most) return;
    bool in_order = true;
    for (int k = 0; k < q->n; k++)
        in_order &= q->e[k].kind != PEND_SMEM && q->e[k].kind != PEND_FLAT;
    if (most && !in_order) return; /* any of them may be the ones that are left */
    memmove(q->e, q->e + (q->n - most), (size_t)most * sizeof *q->e);
    q->n = most;
    collect(w);
}

static _Noreturn void unfinished(struct wave *w, const struct insn *i)
{
    for (int q = 0; q < 2; q++) {
        const struct pending_queue *queue = q ? &w->lgkm : &w->vm;
        for (int k = 0; k < queue->n; k++) {
            const struct pending *p = &queue->e[k];
            bool scalar = p->kind == PEND_SMEM;
            for (int r = p->reg; r < p->reg + p->n_regs; r++) {
                if ((scalar ? i->check_s : i->check_v)[r / 64] >> r % 64 & 1)
                    fault(w, i, -1, "%c%d is used before the s_waitcnt %s for the load at pc 0x%x",
                          scalar ? 's' : 'v', r, q ? "lgkmcnt" : "vmcnt", p->pc);
            }
        }
    }
    abort(); /* the caller has seen one */
}

/* --- wait states between an instruction of the VALU and one that needs its result elsewhere (ISA,
 * "Manually inserted wait states"); compilers place s_nop, inline assembly must do it itself. */
enum {
    WAIT_DPP = 2,
    WAIT_EXEC_DPP = 5,
    WAIT_VMEM_SGPR = 5,
    WAIT_VCC_FMAS = 4,
    WAIT_LANE_SELECT = 4
};

static void need_states(struct wave *w, const struct insn *i, uint32_t written, uint32_t states,
                        const char *what)
{
    if (written && w->tick - written < states + 1)
        fault(w, i, -1, "%s needs %u wait states, has %u", what, states, w->tick - written - 1);
}

static void check_wait_states(struct wave *w, const struct insn *i)
{
    if (i->dpp) {
        need_states(w, i, w->vgpr_tick[i->src[0].reg], WAIT_DPP,
                    "DPP of a VGPR that the VALU wrote");
        need_states(w, i, w->sgpr_tick[SGPR_EXEC], WAIT_EXEC_DPP, "DPP after the VALU wrote EXEC");
    }
    if (i->unit == UNIT_VMEM) {
        for (int q = 0; q < 2; q++) {
            for (uint64_t set = i->check_s[q]; set; set &= set - 1)
                need_states(w, i, w->sgpr_tick[64 * q + __builtin_ctzll(set)], WAIT_VMEM_SGPR,
                            "vector memory with an SGPR that the VALU wrote");
        }
    }
    if (i->op && i->op->enc == ENC_VOP3 && (i->op->code == 0x1e2 || i->op->code == 0x1e3))
        need_states(w, i, w->sgpr_tick[SGPR_VCC], WAIT_VCC_FMAS,
                    "v_div_fmas after the VALU wrote VCC");
    if (i->op && i->op->enc == ENC_VOP3 && (i->op->code == 0x289 || i->op->code == 0x28a) &&
        i->src[1].kind == SRC_SGPR)
        need_states(w, i, w->sgpr_tick[i->src[1].reg], WAIT_LANE_SELECT,
                    "lane select by an SGPR that the VALU wrote");
    if (w->wide_store) {
        const struct insn *s = w->wide_store;
        for (int r = s->data; r < s->data + s->n_dwords && i->unit == UNIT_VALU; r++) {
            if (i->write_v[r / 64] >> r % 64 & 1)
                fault(w, i, -1,
                      "v%d is overwritten right after the wide store that reads it, needs 1 wait "
                      "state",
                      r);
        }
        w->wide_store = NULL;
    }
}

static void note_writes(struct wave *w, const struct insn *i)
{
    for (int q = 0; q < 4; q++) {
        for (uint64_t set = i->write_v[q]; set; set &= set - 1)
            w->vgpr_tick[64 * q + __builtin_ctzll(set)] = w->tick;
    }
    for (int q = 0; q < 2; q++) {
        for (uint64_t set = i->write_s[q]; set; set &= set - 1)
            w->sgpr_tick[64 * q + __builtin_ctzll(set)] = w->tick;
    }
}

/* What the scalar unit writes has no hazard of this kind, whoever wrote it before. */
static void forget_writes(struct wave *w, const struct insn *i)
{
    int n = i->unit == UNIT_SMEM                         ? i->n_dwords
            : i->unit != UNIT_SALU || i->dst_type == '-' ? 0
            : i->dst_type == 'q'                         ? 2
                                                         : 1;
    for (int r = i->sdst; n-- && r < 128; r++) w->sgpr_tick[r] = 0;
}

/* --- a wave, until it ends or waits at a barrier */
static void run_wave(struct wave *w)
{
    struct kernel *k = w->block->launch->kernel;
    uint64_t limit = w->block->launch->step_limit, lanes_on = 0;
    while (!w->done && !w->at_barrier) {
        struct insn *i = &k->code[w->pc / 4];
        if (!i->exec) {
            i->pc = w->pc;
            if (w->pc + 4 > k->module->size)
                fault(w, i, -1, "the program counter ran off the code");
            decode(k, w->pc, i);
        }
        uint64_t hit = (w->pend_v[0] & i->check_v[0]) | (w->pend_v[1] & i->check_v[1]) |
                       (w->pend_v[2] & i->check_v[2]) | (w->pend_v[3] & i->check_v[3]) |
                       (w->pend_s[0] & i->check_s[0]) | (w->pend_s[1] & i->check_s[1]);
        if (hit) unfinished(w, i);
        if (++w->steps > limit)
            fault(w, i, -1, "more than %llu instructions: an endless loop?",
                  (unsigned long long)limit);
        w->tick++;
        if (i->dpp || i->unit == UNIT_VMEM || i->unit == UNIT_VALU) check_wait_states(w, i);
        else w->wide_store = NULL;
        w->pc += 4u * i->n_words;
        w->count[i->unit]++;
        if (i->unit == UNIT_VALU) {
            lanes_on += (uint64_t)__builtin_popcountll(EXEC(w));
            i->exec(w, i);
            note_writes(w, i);
        } else {
            i->exec(w, i);
            forget_writes(w, i);
        }
    }
    k->stats->sum.lanes_on += lanes_on;
}

/* --- blocks */
enum {
    PROP_BUFFER = 1,
    PROP_DISPATCH = 2,
    PROP_QUEUE = 4,
    PROP_KERNARG = 8,
    PROP_DISPATCH_ID = 16,
    PROP_FLAT_SCRATCH = 32,
    PROP_SIZE = 64
};

static int put_pair(struct wave *w, int s, uint64_t x)
{
    w->s[s] = (uint32_t)x, w->s[s + 1] = (uint32_t)(x >> 32);
    return s + 2;
}

/* Registers at the start (LLVM AMDGPU usage, "Initial Kernel Execution State"). All others hold a
 * pattern. */
static void start_wave(struct block *b, int id)
{
    const struct launch *l = b->launch;
    const struct kernel *k = l->kernel;
    struct wave *w = &b->waves[id];
    memset(w->v, 0x7e, k->n_vgprs * sizeof w->v[0]);
    memset(w->s, 0x7e, sizeof w->s);
    memset((char *)w + offsetof(struct wave, pc), 0, sizeof *w - offsetof(struct wave, pc));
    w->id = id, w->block = b, w->pc = k->entry;
    w->mode = k->rsrc1 >> 12 & 0xff;
    w->mode |= (k->rsrc1 >> 21 & 1) << 8 | (k->rsrc1 >> 23 & 1) << 9;
    w->scratch = b->scratch + (size_t)id * LANES * k->scratch_size;
    int n = b->n_threads - id * LANES, s = 0;
    EXEC(w) = n >= LANES ? ~0ull : (1ull << n) - 1;
    VCC(w) = 0;
    uint64_t flat_scratch = 0;
    if (k->properties &
        PROP_BUFFER) { /* swizzled, with the lane's number added; elements of 4 bytes */
        s = put_pair(w, s, SCRATCH_BASE | 1ull << 63);
        s = put_pair(w, s, 0xffffffff | (uint64_t)(1u << 23) << 32);
    }
    if (k->properties & PROP_DISPATCH) s = put_pair(w, s, l->packet);
    if (k->properties & PROP_QUEUE) s = put_pair(w, s, 0);
    if (k->properties & PROP_KERNARG) s = put_pair(w, s, l->kernarg);
    if (k->properties & PROP_DISPATCH_ID) s = put_pair(w, s, 0);
    if (k->properties & PROP_FLAT_SCRATCH) s = put_pair(w, s, flat_scratch);
    if (k->properties & PROP_SIZE) w->s[s++] = k->scratch_size;
    s = (int)(k->rsrc2 >> 1 & 31);
    for (int d = 0; d < 3; d++) {
        if (k->rsrc2 >> (7 + d) & 1) w->s[s++] = b->id[d];
    }
    if (k->rsrc2 >> 10 & 1) w->s[s++] = (uint32_t)(b->n_waves | (id == 0 ? 1 << 31 : 0));
    if (k->rsrc2 & 1) w->s[s++] = (uint32_t)id * k->scratch_size * LANES;
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t t = (uint32_t)(id * LANES + lane);
        w->v[0][lane] = t % l->block[0];
        if ((k->rsrc2 >> 11 & 3) >= 1) w->v[1][lane] = t / l->block[0] % l->block[1];
        if ((k->rsrc2 >> 11 & 3) >= 2) w->v[2][lane] = t / l->block[0] / l->block[1];
    }
}

static void add_counts(const struct block *b)
{
    struct gfx906_stats *s = &b->launch->kernel->stats->sum;
    uint64_t *unit[N_UNITS] = {&s->valu, &s->salu,   &s->smem, &s->vmem,
                               &s->lds,  &s->branch, &s->other};
    for (int k = 0; k < b->n_waves; k++) {
        for (int u = 0; u < N_UNITS; u++) *unit[u] += b->waves[k].count[u];
    }
    s->blocks++;
    s->waves += (uint64_t)b->n_waves;
}

static int run_block(struct block *b)
{
    lds_begin(b);
    for (int k = 0; k < b->n_waves; k++) start_wave(b, k);
    if (setjmp(b->on_fault)) return HIP_LAUNCH_FAILURE;
    for (int waiting = 1; waiting;) {
        waiting = 0;
        for (int k = 0; k < b->n_waves; k++) {
            run_wave(&b->waves[k]);
            waiting += !b->waves[k].done;
        }
        for (int k = 0; k < b->n_waves; k++) b->waves[k].at_barrier = false;
        lds_barrier(b);
    }
    add_counts(b);
    return 0;
}

/* Blocks that no launch has: devices compute at once. */
static struct block *spare;

static struct block *take_block(void)
{
    struct block *b = spare;
    if (b) {
        spare = b->next;
        return b;
    }
    b = calloc(1, sizeof *b);
    struct wave *waves = b ? aligned_alloc(64, MAX_WAVES * sizeof *waves) : NULL;
    if (!waves) {
        free(b);
        return NULL;
    }
    b->waves = waves;
    b->lds_used = ~0ull; /* to be filled */
    return b;
}

static int run_blocks(struct block *b)
{
    const struct launch *l = b->launch;
    int rc = 0;
    for (uint32_t z = 0; z < l->grid[2] && !rc; z++) {
        for (uint32_t y = 0; y < l->grid[1] && !rc; y++) {
            for (uint32_t x = 0; x < l->grid[0] && !rc; x++) {
                b->id[0] = x, b->id[1] = y, b->id[2] = z;
                rc = run_block(b);
            }
        }
    }
    return rc;
}

int run_launch(const struct launch *l)
{
    const struct kernel *k = l->kernel;
    struct block *b = take_block();
    if (!b) return HIP_NO_MEMORY;
    b->launch = l;
    b->n_threads = (int)(l->block[0] * l->block[1] * l->block[2]);
    b->n_waves = (b->n_threads + LANES - 1) / LANES;
    size_t scratch = (size_t)b->n_waves * LANES * k->scratch_size;
    int rc = HIP_NO_MEMORY;
    b->scratch = malloc(scratch + 1);
    if (b->scratch) {
        memset(b->scratch, 0xe7, scratch);
        struct gfx906_stats *s = &k->stats->sum;
        s->launches++;
        s->vgprs = k->n_vgprs, s->sgprs = k->n_sgprs, s->lds_size = l->lds_size,
        s->scratch_size = k->scratch_size;
        rc = run_blocks(b);
        free(b->scratch);
    }
    b->next = spare;
    spare = b;
    return rc;
}
