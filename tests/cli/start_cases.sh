#!/bin/sh
# The commands of docs/start: what stands under "<!-- test -->" is run as it is written, in a folder that looks
# like the project's. Those under "<!-- test: slurm -->" are run by tests/cluster/slurm_cases.sh.
. "$(dirname "$0")/common.sh"
source=${TEST_SOURCE:?names the project}
. "$source/tests/cli/start.sh"

# Other hosts that are this one, and no program that could reach a cluster.
stand_ins() {
    mkdir bin
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nfor word; do :; done\nexec sh -c "$word"\n' >bin/ssh
    chmod +x bin/ssh
    PATH=$PWD/bin:$PATH
}

case_laptop() {
    start_folder
    expect 0 start_run laptop test
    contains out '[3]: rank 3 of 4'
    equal "$(grep -c 'hello from rank . of 4' out)" 4
}

case_ssh() {
    start_folder
    stand_ins
    expect 0 start_run ssh test
    contains out 'host node2: 2 ranks'
    contains out '[3]: rank 3 on node2'
}

case_kubernetes() {
    start_folder
    expect 0 start_run kubernetes test
    contains out 'kind: MPIJob'
    contains out 'completionMode: Indexed'
}

# The page's own configuration, which may not be complete by chance.
case_azureml() {
    start_folder
    sed -n '/^```json/,/^```$/p' "$source/docs/start/azureml.md" | sed '/^```/d' >config_aml.json
    expect 0 start_run azureml test
    contains out 'instance_count: 8'
    contains out 'process_count_per_instance: 4'
    cmp out job_aml.yaml || fail "it is printed and written differently"
}

case_azureml_example() {
    start_folder
    cp -r "$source/examples" real
    mkdir -p data/mnist
    sed -i 's/""/"x"/' real/azureml/config_aml.json
    rm examples && mv real examples
    expect 0 python3 examples/azureml/submit.py --dry-run
    contains out 'instance_count: 8'
    contains out 'process_count_per_instance: 4'
    contains out 'pytorch_mnist.py --use-adasum'
    contains out 'path: "../../docker"'
    # without a wheel nothing can be built, and nothing is sent
    printf '#!/bin/sh\ntouch called\n' >az && chmod +x az
    PATH=$PWD:$PATH expect 1 python3 examples/azureml/submit.py
    one_line err
    contains err 'make wheel'
    mkdir dist && touch dist/rueda-1.whl
    PATH=$PWD:$PATH expect 0 python3 examples/azureml/submit.py
    [ -e docker/wheels/rueda-1.whl ] && [ -e examples/azureml/called ] || fail "it was not sent"
}

# Pages that are linked are there.
case_links_lead_somewhere() {
    cd "$source/docs/start" || exit 1
    for link in $(grep -oh '](\([^):]*\))' *.md ../networks.md ../../docker/README.md | tr -d '()]' | cut -d '#' -f 1 | sort -u); do
        [ -z "$link" ] || [ -e "$link" ] || [ -e "../$link" ] || [ -e "../../docker/$link" ] || fail "no $link"
    done
}

run_case "$1"
