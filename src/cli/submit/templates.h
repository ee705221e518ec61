/* templates.h: the texts of templates/, which the build puts into the program (cmake/RuedaEmbed.cmake). */
#ifndef RUEDA_CLI_SUBMIT_TEMPLATES_H
#define RUEDA_CLI_SUBMIT_TEMPLATES_H

extern const char template_slurm_sh[];         /* for sbatch */
extern const char template_mpijob_yaml[];      /* for kubectl and Kubeflow's operator */
extern const char template_mpijob_sh[];        /* what its launcher runs */
extern const char template_indexed_job_yaml[]; /* for kubectl alone */
extern const char template_azureml_yaml[];     /* for az */

/* What stands before a line of a job; see submit_line. */
extern const char template_ranks_sh[];
extern const char template_gpus_sh[];
extern const char template_inputs_sh[]; /* of Azure ML */

#endif
