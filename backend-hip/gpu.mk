# backend-hip/gpu.mk: the GPU kernels. One source, a code object for each AMD architecture and PTX for NVIDIA, embedded in opt4gptq-run.
# Without clang-19 the backend is built without them and says so.
# GPUS: the images to compile, "all" or names of them; `make demo` alone compiles those for this machine's GPUs (scripts/gpus).
ifndef STATIC
CLANG       := $(shell command -v clang-19)
endif
# by ccache where CC is by it
CCACHED     := $(if $(filter %/ccache,$(realpath $(shell command -v $(firstword $(CC))))),ccache)
CLANG_DIR   := $(if $(CLANG),$(dir $(shell readlink -f $(CLANG))))
GPU_ARCHS   := gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201
# for any chip of a family, where the runtime knows code object version 6, which clang-19 warns of: tried last
GENERICS    := gfx9-generic gfx10-3-generic gfx11-generic gfx12-generic
PTX_ARCHS   := sm_90a sm_80 sm_70
GPUS        ?= $(if $(filter-out demo,$(or $(MAKECMDGOALS),all)),all,$(shell scripts/gpus))
# what is asked for, in the order of these lists
GPU_IMAGES  := $(filter $(if $(filter all,$(GPUS)),%,$(GPUS)),$(GPU_ARCHS) $(GENERICS) $(PTX_ARCHS))
ifeq ($(strip $(GPU_IMAGES)),)
CLANG       :=
endif
PTX_sm_70   := ptx63
PTX_sm_80   := ptx78
PTX_sm_90a  := ptx80
GPU_SOURCES := $(wildcard backend-hip/kernels/*.hip backend-hip/kernels/*.h backend-hip/kernels/*/*)
NOT_AMD     := $(addprefix backend-hip/kernels/,hopper/% host/% nvidia/% args.h kernel_list.h)
GPU_FLAGS   := -O3 -ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Werror -Wno-unused-function -I.
# an image depends on the files that it includes
GPU_DEPS     = -MMD -MP -MF $@.d -MT $@
# a sanitized build has no kernels of its own
G           := $(if $(SAN),build,$B)/gpu
IMAGES      := $(if $(CLANG),$G/amd.zst $G/nvidia.zst $G/sources.zst)
# a build with kernels after one without, and the other way round
$B/backend-hip/runtime/hip_images.o: $B/kernels
$B/kernels: always
	@mkdir -p $(@D)
	@echo '$(if $(CLANG),with,without)' | cmp -s - $@ || echo '$(if $(CLANG),with,without)' >$@
ifdef CLANG
$B/backend-hip/runtime/hip_images.o: ALL_CFLAGS += -DHIP_IMAGES='"$G"' -I$G
$B/backend-hip/runtime/hip_images.o: $(IMAGES) $G/images.inc $G/gfx906.tsv
ifdef SAN
$B/backend-hip/runtime/hip_images.o: | $B/gpu
$B/gpu:
	@mkdir -p $B
	$(Q)ln -s ../$G $@
endif
else ifndef STATIC
all: no-kernels
no-kernels: ; @echo 'note: the GPU kernels are left out of this build: $(if $(GPU_IMAGES),no clang-19 (scripts/deps --hip installs it),no GPU here (make GPUS=all compiles all))'
endif

# clang finds the linker of its own version by PATH only. No id of the compilation: it is made of the path, and nothing here needs one.
HIP_CC       = PATH=$(CLANG_DIR):$$PATH $(CCACHED) $(CLANG) -x hip --cuda-device-only --no-gpu-bundle-output --offload-arch=$* \
	    $(OBJECT_VERSION) -nogpuinc -nogpulib -fuse-cuid=none $(GPU_FLAGS) $(if $(filter %-generic,$*),-w) $(GPU_DEPS) -o $@
OBJECT_VERSION = -mcode-object-version=$(if $(filter %-generic,$*),6,4)
$G/%.co: backend-hip/kernels/kernels.hip backend-hip/gpu.mk
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)$(HIP_CC) -c backend-hip/kernels/kernels.hip

# The kernels of a chip whose instructions are those of its family are assembled from the family's text, without what older
# versions of a code object do not have.
FAMILY_gfx1030 := gfx10-3-generic
FAMILY_gfx1100 := gfx11-generic
FAMILY_gfx1201 := gfx12-generic
CHIPS          := gfx1030 gfx1100 gfx1201
FAMILIES       := $(foreach c,$(CHIPS),$(FAMILY_$c))
$(FAMILIES:%=$G/%.s): $G/%.s: backend-hip/kernels/kernels.hip backend-hip/gpu.mk
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)$(HIP_CC) -S backend-hip/kernels/kernels.hip
	$(Q)sed -i '/^\t\.section\t\.AMDGPU\.csdata/d' $@
$(foreach c,$(CHIPS),$(eval $G/$c.s: $G/$(FAMILY_$c).s))
$(CHIPS:%=$G/%.s): $G/%.s:
	$(Q)sed -e '/^ *\.\(workgroup_processor_mode\|uses_dynamic_stack\|uniform_work_group_size\):/d' \
	    -e '/\.amdhsa_uses_dynamic_stack/d' -e 's/$(FAMILY_$*)/$*/' -e 's/amdhsa_code_object_version 6/amdhsa_code_object_version 4/' \
	    -e '/^amdhsa\.version:/,$$s/^  - 2/  - 1/' $< >$@
$(CHIPS:%=$G/%.co) $(FAMILIES:%=$G/%.co): $G/%.co: $G/%.s
	$(SAY) ASSEMBLE $*
	$(Q)PATH=$(CLANG_DIR):$$PATH $(CLANG) -target amdgcn-amd-amdhsa -mcpu=$* $(OBJECT_VERSION) -w -o $@ $<

# As they lie in the program: all images of a vendor in one stream, since they are much alike, each behind a line with its size
# and its crc32 (the end of a gzip file has it); in the order of images.inc. PTX without comments and indentation.
$G/%.text: $G/%.ptx
	$(Q)sed -E 's,[ \t]*//.*,,; s/^[ \t]+//; /^$$/d' $< >$@
$G/amd.zst: $(patsubst %,$G/%.co,$(filter gfx%,$(GPU_IMAGES)))
$G/nvidia.zst: $(patsubst %,$G/%.text,$(filter sm_%,$(GPU_IMAGES)))
$G/nvidia.zst: ZSTD_FOR := --zstd=strategy=7,wlog=26,hlog=22,clog=22,slog=3,mml=6,tlen=64# -19 takes 25 s for 0.28 MB less
$G/sources.zst: $G/sources
# what hip_images.c says of them; new where GPUS is another
$G/images.inc: always
	@mkdir -p $(@D)
	@n=0; for a in $(filter gfx%,$(GPU_IMAGES)); do echo "AMD($$a, $$n),"; n=$$((n + 1)); done >$@.new; \
	n=0; for a in $(filter sm_%,$(GPU_IMAGES)); do echo "NVIDIA($$a, $$n),"; n=$$((n + 1)); done >>$@.new; \
	cmp -s $@.new $@ || cp $@.new $@
$(IMAGES): backend-hip/gpu.mk $G/images.inc
	$(Q)for f in $(filter-out %.mk %.inc,$^); do echo $$(stat -c %s $$f) $$(gzip -1c $$f | tail -c 8 | od -An -N4 -tx4); cat $$f; done | zstd -q $(or $(ZSTD_FOR),-19) --long=26 -c >$@

# for a device of AMD's that none of the code objects fits: hip_compile.c
$G/sources: $(filter-out $(NOT_AMD),$(GPU_SOURCES))
	@mkdir -p $(@D)
	$(Q)for f in $^; do printf '%s\0' $$f; cat $$f; printf '\0'; done >$@

# what opt4gptq-bench --ablation prints where there is no GPU; empty without llvm-objdump-19
$G/gfx906.tsv: $(patsubst %,$G/%.co,$(filter gfx906,$(GPU_IMAGES))) scripts/kernel-table $G/images.inc
	$(Q)$(if $(filter gfx906,$(GPU_IMAGES)),scripts/kernel-table --tsv $(G:/gpu=),:) >$@

$G/%.ptx: backend-hip/kernels/kernels.hip backend-hip/gpu.mk
	@mkdir -p $(@D)
	$(SAY) KERNELS $*
	$(Q)$(CCACHED) $(CLANG) -x cuda --cuda-device-only --cuda-gpu-arch=$* --cuda-feature=+$(PTX_$*) -nocudainc -nocudalib --cuda-path=/nonexistent \
	    $(GPU_FLAGS) $(GPU_DEPS) -S -o $@ backend-hip/kernels/kernels.hip

-include $(wildcard $G/*.d)
