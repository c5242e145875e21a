/* work.h: the folder OUT.work, in which a quantization keeps what it has finished, so that a killed
 * run goes on. A unit is the modules that are quantized together; its file appears when they are
 * done. Owns: the folder, its manifest and lock, the tensors of finished modules. Must not know:
 * how modules are quantized. */
#ifndef QUANTIZE_WORK_H
#define QUANTIZE_WORK_H

#include "quantize/modules.h"
#include "quantize/codes.h"
#include "quantize/shard.h"
#include "quantize/solver.h"

struct work {
    char *dir;
    int lock;    /* descriptor */
    int resumed; /* the folder was there */
};

/* Makes OUT.work, or takes the one that is there, if its manifest is the same. Error: another
 * quantization's, or another process's. */
int work_open(struct work *w, const char *out, const json_t *manifest, struct err *e);
/* Compares *j with file NAME of the folder, which is written where there is none. */
int work_check(const struct work *w, const char *name, const json_t *j, struct err *e);
/* The folder is removed if the work is finished, or nothing of it is. */
int work_close(struct work *w, int finished, struct err *e);
/* A name in the folder; the caller frees it. NULL: out of memory. */
char *work_path(const struct work *w, const char *name);
/* Removes a folder or a file with all that is in it. */
int work_remove(const char *path, struct err *e);

/* A module's tensors as they are in the result. */
struct unit_module {
    const struct module *module;
    uint32_t *qweight, *qzeros;
    uint16_t *scales;
    int32_t *g_idx;
    float *bias; /* or NULL */
    json_t *report;
};
struct unit {
    int n;
    struct unit_module *part;
};

int unit_open(struct unit *u, int n, struct err *e);
void unit_close(struct unit *u);
/* Packs a solved matrix. */
struct unit_solved {
    const struct module *module;
    const struct solver_matrix *x;
    const struct factor *f; /* its order */
};
int unit_put(struct unit_module *u, const struct unit_solved *from, struct pool *p, struct err *e);
int unit_write(const struct unit *u, const struct work *w, int number, struct err *e);
/* *there 0: the unit is not finished. Else *s is its file, open. */
int unit_find(struct st_file *s, const struct work *w, int number, int *there, struct err *e);
/* Fills *c with a module of a finished unit. */
int unit_codes(const struct st_file *s, const struct module *m, struct module_codes *c,
               struct err *e);

#endif
