/* places.h: a plan on several open backends. Places of a backend that links them (backend.h) have a
 * plan each, with the exchanges of rows in it. Others compute segments, and rows go from one to
 * another by way of the host's memory, one step at a time. Owns: the backends of the places, their
 * memory. Must not know: rules of splits, what places compute on. */
#ifndef CORE_PLACES_H
#define CORE_PLACES_H

#include "core/run/place.h"
#include "core/run/streams.h"
#include "core/step/split.h"

#include <pthread.h>

/* A thread that issues a place's part of a step: with several, no place waits until another's is
 * issued. */
struct places;
struct place_thread {
    struct places *places;
    int place, started;
    pthread_t thread;
};

enum { ROW_CLASSES = 20, STREAM_ROWS = 256 /* until steps are timed */ };

struct places {
    struct split split;
    struct be *be[PLACES];
    struct plan_memory memory[PLACES];
    int linked;
    struct step_plan plan[PLACES]; /* of linked places: with OP_EXCHANGE */
    /* [split.n_items], NULL: a transfer; [split.n_places] of linked places */
    struct be_plan **compiled;
    struct place_thread thread[PLACES];
    pthread_mutex_t lock;
    pthread_cond_t change;
    int n_in_flight;            /* steps that have begun and that nobody has waited for */
    const struct batch *batch;  /* of the step that threads issue */
    unsigned n_steps, n_issued; /* steps; parts of them */
    int ends;                   /* the threads do */
    char *stage;                /* rows on their way, twice the largest transfer */
    struct be *pinner;          /* the place that page-locked the next; NULL: none did */
    void *landing; /* buffers of places on the host that whole rows come to from a device, in memory
                      that it downloads to as it is */
    struct streams *streams;          /* NULL: none */
    int stream_rows;                  /* 0: by times of steps on the host: */
    double host_seconds[ROW_CLASSES]; /* of 2^i rows and more; 0: unknown */
    unsigned landed[PLACES]; /* bit q: rows of a place land on place q, not waited for yet */
    struct err failed;       /* the first failure of a transfer in a step; empty: none */
};

/* Opens place 0 .. n-1 for a split plan, which must outlive the result. Errors: those of backends.
 */
int places_open(struct places **out, const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o, struct err *e);
/* What each place takes: need [want->n_places]. */
int places_need(const struct step_plan *p, const struct forward_place *place,
                const struct split_want *want, const struct forward_options *o,
                struct forward_need *need, struct err *e);
void places_close(struct places *s);
/* As begin_step and run of a backend. Steps of linked places may overlap as a backend's do. */
void places_begin(struct places *s, const struct batch *b);
void places_end(struct places *s);
/* 1 when places_wait would not wait, or always where places are not linked. */
int places_ready(struct places *s);
int places_wait(struct places *s, struct err *e);

#endif
